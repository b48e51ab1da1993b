"""Downloads the files of data sets, verified by size and MD5, and writes them atomically."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fedtide.data.catalogue import CATALOGUE, DataSpec, Remote
from fedtide.data.places import user_cache
from fedtide.errors import FedtideError, did_you_mean
from fedtide.files import atomic

_CHUNK = 2**16
_PATIENCE = 30  # seconds without a response


def fetch(
    name: str,
    folder: Path | str | None = None,
    *,
    mirrors: Sequence[str] | None = None,
    bar: Callable[[Remote], Any] | None = None,
) -> list[Path]:
    """Downloads the files of a data set into `folder`/NAME (by default in the user's cache); returns their paths.

    Existing files with the right checksum are not downloaded again. `mirrors` are addresses to try instead of the
    published ones. `bar` returns, for a file, a progress bar as pooch expects it (`total`, `update`, `reset`, `close`).
    """
    entry = fetchable(name)
    target = (user_cache() if folder is None else Path(folder).expanduser()) / entry.folders[0]
    created = not target.exists()
    paths = []
    try:
        for remote in entry.remotes:
            path = target / remote.name
            if not (path.is_file() and path.stat().st_size == remote.size and _md5(path) == remote.md5):
                _download(entry, remote, path, entry.mirrors if mirrors is None else mirrors, bar)
            paths.append(path)
    finally:
        if created and target.is_dir() and not any(target.iterdir()):
            target.rmdir()
    return paths


def fetchable(name: str) -> DataSpec:
    """The data set whose files are downloaded for a name: for a part, the data set that it is a part of."""
    if name not in CATALOGUE:
        raise FedtideError(f"'{name}' is not a data set; {did_you_mean(name, CATALOGUE)}")
    entry = CATALOGUE[name]
    if entry.cut is not None:
        entry = CATALOGUE[entry.cut.of]
    if not entry.remotes:
        raise FedtideError(f"{name}: nothing to download; it is included in scikit-learn")
    return entry


def _download(
    entry: DataSpec, remote: Remote, path: Path, mirrors: Sequence[str], bar: Callable[[Remote], Any] | None
) -> None:
    """Downloads from the first mirror with the right file."""
    import pooch
    import requests

    faults = []
    for mirror in mirrors:
        url = mirror.rstrip("/") + "/" + remote.name
        try:
            with atomic(path) as temporary:
                progress = bar(remote) if bar is not None else False
                # Uncompressed: a server might otherwise compress a compressed file again.
                headers = {"Accept-Encoding": "identity"}
                get = pooch.HTTPDownloader(progress, chunk_size=_CHUNK, timeout=_PATIENCE, headers=headers)
                get(url, str(temporary), None)
                _check(url, temporary, remote)
            return
        except requests.exceptions.RequestException as error:
            faults.append(f"{url}: {_reason(error)}")
        except FedtideError as error:
            faults.append(str(error))
    raise FedtideError(f"{entry.name}: not downloaded: {'; '.join(faults)}")


def _check(url: str, path: Path, remote: Remote) -> None:
    size = path.stat().st_size
    if size != remote.size:
        kind = "truncated" if size < remote.size else "another file"
        raise FedtideError(f"{url}: {kind}: {remote.size:,} bytes expected, {size:,} received")
    md5 = _md5(path)
    if md5 != remote.md5:
        raise FedtideError(f"{url}: another file: MD5 {remote.md5} expected, {md5} received")


def _md5(path: Path) -> str:
    import pooch

    return pooch.file_hash(str(path), alg="md5")


def _reason(error: Any) -> str:
    """The cause of a failed request, in plain words."""
    import requests

    if error.response is not None:
        return f"the server responded {error.response.status_code} {error.response.reason}"
    if isinstance(error, requests.exceptions.Timeout):
        return f"no response within {_PATIENCE} seconds"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "truncated: the connection was closed before the end of the file"
    if isinstance(error, requests.exceptions.ConnectionError):
        return "no connection"
    return type(error).__name__
