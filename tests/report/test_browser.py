"""The report in a real browser. Skipped where Chromium and its driver are not installed."""

import base64
import json
import shutil

import pytest

SWITCHES = (
    "--headless=new",
    "--no-sandbox",  # tests may run as root
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("no browser: install chromium and chromium-driver (chromedriver) to run these tests")
    webdriver = pytest.importorskip("selenium.webdriver", reason="no selenium: pip install 'fedtide[test]'")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for switch in SWITCHES:
        options.add_argument(switch)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    found = webdriver.Chrome(options=options, service=Service(executable_path=driver))
    yield found
    found.quit()


@pytest.fixture(scope="module")
def address(demo_page):
    return demo_page.as_uri()


def visit(browser, address, width=1280, scheme="light"):
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    wish = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": wish})
    browser.get(address)


def test_it_is_silent_and_alone(browser, address):
    browser.get("about:blank")
    for kind in ("browser", "performance"):
        browser.get_log(kind)  # empties it
    visit(browser, address)
    assert browser.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    # chrome: is the browser's own first tab, which may still be loading.
    assert [url for url in asked if not url.startswith(("data:", "chrome:"))] == [address]
    linked = browser.execute_script(
        """return [...document.querySelectorAll('[src],[href]')]
             .map(e => e.getAttribute('src') || e.getAttribute('href'))"""
    )
    assert not [url for url in linked if not url.startswith(("data:", "#"))]


@pytest.mark.parametrize("width", [1280, 768, 390])
def test_it_fits(browser, address, width):
    visit(browser, address, width)
    assert browser.execute_script("return innerWidth") == width
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    boxes = browser.execute_script(
        """return [...document.querySelectorAll('figure')].map(f => {
             const shown = [...f.querySelectorAll('svg')].filter(s => s.getBoundingClientRect().width > 0);
             const box = shown[0].getBoundingClientRect();
             return [shown.length, box.left, box.right, box.height, shown[0].querySelectorAll('text').length];
           })"""
    )
    assert len(boxes) == 6
    for shown, left, right, height, texts in boxes:
        assert shown == 1  # the wide drawing or the narrow one
        assert 0 <= left < right <= width
        assert height > 100
        assert texts > 3


@pytest.mark.parametrize("width", [1280, 390])
def test_no_text_leaves_its_drawing_or_covers_another(browser, address, width):
    visit(browser, address, width)
    wrong = browser.execute_script(
        """const wrong = [];
           for (const svg of document.querySelectorAll('figure svg')) {
             const frame = svg.getBoundingClientRect();
             if (!frame.width) continue;
             const texts = [...svg.querySelectorAll('text')].filter(t => t.textContent.trim());
             const boxes = texts.map(t => t.getBoundingClientRect());
             boxes.forEach((a, i) => {
               if (a.left < frame.left - 2 || a.right > frame.right + 2 ||
                   a.top < frame.top - 2 || a.bottom > frame.bottom + 2)
                 wrong.push(['outside', texts[i].textContent]);
               boxes.slice(i + 1).forEach((b, j) => {
                 const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
                 const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
                 if (wide > 1 && high > 4) wrong.push(['overlap', texts[i].textContent, texts[i + 1 + j].textContent]);
               });
             });
           }
           for (const cell of document.querySelectorAll('td')) {
             const frame = cell.getBoundingClientRect();
             for (const part of cell.querySelectorAll('*')) {
               const box = part.getBoundingClientRect();
               if (box.width && (box.left < frame.left - 1 || box.right > frame.right + 1))
                 wrong.push(['outside its cell', cell.textContent.trim()]);
             }
           }
           return wrong;"""
    )
    assert wrong == []


def test_dark_and_light(browser, address):
    seen = {}
    for scheme in ("light", "dark"):
        visit(browser, address, scheme=scheme)
        seen[scheme] = browser.execute_script(
            """const of = (e, p) => getComputedStyle(document.querySelector(e))[p];
               const lines = [...document.querySelectorAll('#figure-learning .wide path')];
               return {paper: of('body', 'backgroundColor'), ink: of('body', 'color'),
                       label: of('#figure-learning .wide text', 'fill'),
                       lines: [...new Set(lines.map(p => getComputedStyle(p).stroke))]};"""
        )
    for scheme in seen.values():
        assert scheme["label"] == scheme["ink"]
        assert scheme["paper"] not in scheme["lines"]
    assert _light(seen["light"]["paper"]) > 0.9 > 0.3 > _light(seen["light"]["ink"])
    assert _light(seen["dark"]["paper"]) < 0.2 < 0.8 < _light(seen["dark"]["ink"])
    assert seen["light"]["lines"] != seen["dark"]["lines"]


def test_print_is_light_and_complete(browser, address):
    visit(browser, address, scheme="dark")
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": dark})
    assert _light(browser.execute_script("return getComputedStyle(document.body).backgroundColor")) > 0.9
    shown = "return [...document.querySelectorAll('figure .wide svg')].every(s => s.getBoundingClientRect().width > 0)"
    assert browser.execute_script(shown)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    pdf = base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", {})["data"])
    assert pdf.startswith(b"%PDF-")
    assert 3 <= pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") <= 12


def _light(rgb: str) -> float:
    return sum(int(part) for part in rgb[rgb.index("(") + 1 : -1].split(",")[:3]) / 3 / 255
