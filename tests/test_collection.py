"""Every process collects the same tests: pytest-xdist refuses to run where its workers do not."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
# pytest on another day: what a name takes from the clock differs.
TOMORROW = """
import sys, time
import pytest
now = time.time
time.time = lambda: now() + 86_400
sys.exit(pytest.main(sys.argv[1:]))
"""
COLLECT = ("--collect-only", "-q", "-o", "addopts=--import-mode=importlib", "-p", "no:cacheprovider")


def started(*command, **environment):
    settings = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"} | environment
    return subprocess.Popen(
        [sys.executable, *command], cwd=ROOT, env=settings, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def test_no_name_depends_on_the_process_the_hash_seed_or_the_clock():
    today = started("-m", "pytest", *COLLECT, "tests", PYTHONHASHSEED="1")
    tomorrow = started("-c", TOMORROW, *COLLECT, "tests", PYTHONHASHSEED="2")
    (first, _), (second, _) = today.communicate(), tomorrow.communicate()
    assert (today.returncode, tomorrow.returncode) == (0, 0), first + second
    names = [[line for line in found.splitlines() if "::" in line] for found in (first, second)]
    assert names[0] == names[1]
    assert len(names[0]) > 500


def test_a_test_named_by_bytes_is_refused(tmp_path):
    file = tmp_path / "test_bytes.py"
    file.write_text('import pytest\n\n@pytest.mark.parametrize("content", [b"abc"])\ndef test(content): ...\n')
    run = started("-m", "pytest", *COLLECT, "-p", "conftest", f"--rootdir={tmp_path}", file, PYTHONPATH=str(ROOT))
    said, _ = run.communicate()
    assert run.returncode == 2
    assert "content: bytes do not name a test; give ids=" in said
    file.write_text(file.read_text().replace('[b"abc"])', '[b"abc"], ids=["abc"])'))
    run = started("-m", "pytest", *COLLECT, "-p", "conftest", f"--rootdir={tmp_path}", file, PYTHONPATH=str(ROOT))
    said, _ = run.communicate()
    assert run.returncode == 0
    assert "test_bytes.py::test[abc]" in said
