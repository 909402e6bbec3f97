"""Cards of named data sets: facts and URLs, as data. `catalog` finds them on disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Remote:
    """An official file: its addresses, the first that answers is used, and its checksum."""

    urls: tuple[str, ...]
    md5: str = ""
    sha256: str = ""
    unpack: bool = False

    @property
    def name(self) -> str:
        """What the file is called."""
        return self.urls[0].rpartition("/")[2].partition("?")[0]


@dataclass(frozen=True)
class Card:
    """One data set: what is known of it. Empty where nothing is known for certain."""

    name: str
    kind: Literal["images", "texts"]
    summary: str
    classes: int | None = None
    class_names: tuple[str, ...] = ()
    train: int | None = None  # official sizes
    test: int | None = None
    licence: str = ""
    files: tuple[Remote, ...] = ()
    layouts: tuple[tuple[str, str], ...] = ()  # (format, path) as others lay it out on disk
    system: tuple[tuple[str, str], ...] = ()  # (format, absolute path)
    beside: str = ""  # the set whose folder or file holds this one too
    coarse: bool = False  # of two sets of labels, the one with fewer classes
    outlier_class: str = ""  # its texts are outliers by design, no class
    is_outlier_class: bool = False  # the set is the outlier class, not the others
    tolerated: int = 0  # images that are broken in the official archive
    negative: bool = False  # official images are dark on light; they are turned, as MNIST is
    by_hand: str = ""  # how to get it where nothing can be downloaded


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _idx(
    addresses: tuple[str, ...], md5: tuple[str, ...], sha256: tuple[str, ...] = ("",) * 4
) -> tuple[Remote, ...]:
    names = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    return tuple(
        Remote(tuple(f"{address}{name}-ubyte.gz" for address in addresses), one, two)
        for name, one, two in zip(names, md5, sha256, strict=True)
    )


_DIGITS = _words("0 1 2 3 4 5 6 7 8 9")
_CIFAR10 = _words("airplane automobile bird cat deer dog frog horse ship truck")
_STL10 = _words("airplane bird car cat deer dog horse monkey ship truck")
_COARSE = _words(
    "aquatic_mammals fish flowers food_containers fruit_and_vegetables household_electrical_devices"
    " household_furniture insects large_carnivores large_man-made_outdoor_things"
    " large_natural_outdoor_scenes large_omnivores_and_herbivores medium_mammals"
    " non-insect_invertebrates people reptiles small_mammals trees vehicles_1 vehicles_2"
)
_FINE = _words(
    "apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus"
    " butterfly camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch"
    " crab crocodile cup dinosaur dolphin elephant flatfish forest fox girl hamster house kangaroo"
    " keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle mountain mouse"
    " mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy"
    " porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper"
    " snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone television"
    " tiger tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm"
)
_EUROSAT = _words(
    "AnnualCrop Forest HerbaceousVegetation Highway Industrial Pasture PermanentCrop Residential"
    " River SeaLake"
)
_FASHION = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag",
    "Ankle boot",
)  # fmt: skip
_CIFAR100_FILES = (
    Remote(
        ("https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",),
        md5="eb9058c3a382ffc7106e4002c42a8d85",
        unpack=True,
    ),
)
_CIFAR100_LAYOUTS = (("cifar", "cifar-100-python"), ("cifar", "cifar-100-binary"))


def _table_by_hand(source: str) -> str:
    return f"save {source} as a CSV file with the columns split, label and text"


_CLINC = _table_by_hand("data_full.json of https://github.com/clinc/oos-eval")
_RESEARCH = "non-commercial research only"

_CARDS = (
    Card(
        "digits", "images", "Handwritten digits, 8 x 8 grey; comes with scikit-learn.",
        10, _DIGITS, licence="CC BY 4.0", by_hand="it comes with scikit-learn",
    ),
    Card(
        "mnist", "images", "Handwritten digits, 28 x 28 grey.",
        10, _DIGITS, 60_000, 10_000,
        files=_idx(
            (
                "https://ossci-datasets.s3.amazonaws.com/mnist/",
                "http://yann.lecun.com/exdb/mnist/",
            ),
            (
                "f68b3c2dcbeaaa9fbdd348bbdeb94873", "d53e105ee54ea40749a09fcbcd1e9432",
                "9fb629c4189551a2d022fa330f9573f3", "ec29112dd5afa0611ce80d1b7f02629c",
            ),
            (
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            ),
        ),
        layouts=(("idx", "MNIST/raw"), ("idx", "MNIST")),
    ),
    Card(
        "fashion-mnist", "images", "Articles of clothing, 28 x 28 grey.",
        10, _FASHION, 60_000, 10_000, "MIT",
        files=_idx(
            ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",),
            (
                "8d4fb7e6c68d591d4c3dfef9ec88bf0d", "25c81989df183df01b3e8a0aad5dffbe",
                "bef4ecab320f06d8554ea6380940ec79", "bb300cfdad3c16e7a12a480ee83cd310",
            ),
        ),
        layouts=(("idx", "FashionMNIST/raw"), ("idx", "FashionMNIST")),
        system=(("idx", "/usr/share/datasets/fashion-mnist"),),
    ),
    Card(
        "kmnist", "images", "Kuzushiji: cursive Japanese characters, 28 x 28 grey.",
        10, _words("o ki su tsu na ha ma ya re wo"), 60_000, 10_000, "CC BY-SA 4.0",
        files=_idx(
            ("http://codh.rois.ac.jp/kmnist/dataset/kmnist/",),
            (
                "bdb82020997e1d708af4cf47b453dcf7", "e144d726b3acfaa3e44228e80efcd344",
                "5c965bf0a639b31b8f53240b1b52f4d7", "7320c461ea6c1c855c0b718fb2a4b134",
            ),
        ),
        layouts=(("idx", "KMNIST/raw"), ("idx", "KMNIST")),
    ),
    Card(
        "emnist-letters", "images", "Handwritten letters, 28 x 28 grey, rotated upright.",
        26, _words("a b c d e f g h i j k l m n o p q r s t u v w x y z"), 124_800, 20_800,
        files=(
            Remote(
                ("https://www.itl.nist.gov/iaui/vip/cs_links/EMNIST/gzip.zip",),
                md5="58c8d27c78d21e728a6bc7b3cc06412e", unpack=True,
            ),
        ),
        layouts=(("emnist-letters", "EMNIST/raw"), ("emnist-letters", "gzip")),
    ),
    Card(
        "notmnist", "images", "Letters A to J in many fonts, 28 x 28 grey (the small set).",
        10, _words("A B C D E F G H I J"),
        files=(
            Remote(
                ("http://yaroslavvb.com/upload/notMNIST/notMNIST_small.tar.gz",), unpack=True
            ),
        ),
        layouts=(("images", "notMNIST_small"),), tolerated=2,
    ),
    Card(
        "omniglot", "images", "Handwritten characters of 50 alphabets, light on dark.",
        1_623, (), 19_280, 13_180, "MIT",
        files=tuple(
            Remote(
                (f"https://github.com/brendenlake/omniglot/raw/master/python/images_{part}.zip",),
                md5=md5, unpack=True,
            )
            for part, md5 in (
                ("background", "68d2efa1b9178cc56df9314c21c6e718"),
                ("evaluation", "6b91aef0f799c5bb55b94e3f2daec811"),
            )
        ),
        layouts=(("images", "omniglot-py"),), negative=True,
    ),
    Card(
        "usps", "images", "Digits from envelopes, 16 x 16 grey.",
        10, _DIGITS, 7_291, 2_007,
        files=tuple(
            Remote(
                (f"https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/{name}",),
                md5=md5,
            )
            for name, md5 in (
                ("usps.bz2", "ec16c51db3855ca6c91edd34d0e9b197"),
                ("usps.t.bz2", "8ea070ee2aca1ac39742fdd1ef5ed118"),
            )
        ),
        layouts=(("usps", "."), ("usps", "USPS")),
    ),
    Card(
        "cifar10", "images", "10 kinds of animals and vehicles, 32 x 32 in colour.",
        10, _CIFAR10, 50_000, 10_000,
        files=(
            Remote(
                ("https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",),
                md5="c58f30108f718f92721af3b95e74349a",
                sha256="6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
                unpack=True,
            ),
        ),
        layouts=(("cifar", "cifar-10-batches-py"), ("cifar", "cifar-10-batches-bin")),
    ),
    Card(
        "cifar100", "images", "100 kinds of objects, 32 x 32 in colour.",
        100, _FINE, 50_000, 10_000, files=_CIFAR100_FILES, layouts=_CIFAR100_LAYOUTS,
    ),
    Card(
        "cifar100-coarse", "images", "CIFAR-100 with its 20 superclasses.",
        20, _COARSE, 50_000, 10_000, files=_CIFAR100_FILES, layouts=_CIFAR100_LAYOUTS,
        beside="cifar100", coarse=True,
    ),
    Card(
        "svhn", "images", "House numbers, cropped to digits, 32 x 32 in colour.",
        10, _DIGITS, 73_257, 26_032, "non-commercial use only",
        files=tuple(
            Remote((f"http://ufldl.stanford.edu/housenumbers/{part}_32x32.mat",), md5=md5)
            for part, md5 in (
                ("train", "e26dedcc434d2e4c54c9b2d4a06d8373"),
                ("test", "eb5a983be6a315427106f1b164d9cef3"),
            )
        ),
        layouts=(("svhn", "."), ("svhn", "SVHN")),
    ),
    Card(
        "stl10", "images", "10 kinds of animals and vehicles, 96 x 96 in colour.",
        10, _STL10, 5_000, 8_000,
        files=(
            Remote(
                ("http://ai.stanford.edu/~acoates/stl10/stl10_binary.tar.gz",),
                md5="91f7769df0f17e558f3565bffb0c7dfb", unpack=True,
            ),
        ),
        layouts=(("stl10", "stl10_binary"),),
    ),
    Card(
        "tiny-imagenet", "images", "200 classes of ImageNet, 64 x 64 in colour.",
        200, (), 100_000, 10_000, _RESEARCH,
        files=(
            Remote(
                ("http://cs231n.stanford.edu/tiny-imagenet-200.zip",),
                md5="90528d7ca1a48142e341f4ef8d21d0de", unpack=True,
            ),
        ),
        layouts=(("tiny-imagenet", "tiny-imagenet-200"),),
    ),
    Card(
        "textures", "images", "Describable Textures (DTD), colour, various sizes.",
        47, licence="research only",
        files=(
            Remote(
                ("https://www.robots.ox.ac.uk/~vgg/data/dtd/download/dtd-r1.0.1.tar.gz",),
                md5="fff73e5086ae6bdbea199a49dfb8a4c1", unpack=True,
            ),
        ),
        layouts=(("images", "dtd/images"), ("images", "dtd/dtd/images")),
    ),
    Card(
        "celeba", "images", "Faces of celebrities, colour.", licence=_RESEARCH,
        layouts=(("images", "img_align_celeba"), ("images", "celeba/img_align_celeba")),
        by_hand="its authors offer img_align_celeba.zip on a drive that programs cannot read: see "
        "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html",
    ),
    Card(
        "places", "images", "Places365: scenes, colour; the official validation images.",
        365, (), None, 36_500,
        files=(
            Remote(
                ("http://data.csail.mit.edu/places/places365/val_256.tar",),
                md5="e27b17d8d44f4af9a78502beb927f808", unpack=True,
            ),
        ),
        layouts=(("images", "val_256"), ("images", "places365")),
    ),
    Card(
        "lsun", "images", "Scenes (LSUN), colour.", 10,
        layouts=(("images", "LSUN"),),
        by_hand="it is published as a database: export it to a folder of images, see "
        "https://github.com/fyu/lsun",
    ),
    Card(
        "eurosat", "images", "Land cover from Sentinel-2, 64 x 64 in colour.",
        10, _EUROSAT, licence="MIT",
        files=(
            Remote(
                (
                    "https://huggingface.co/datasets/torchgeo/eurosat/resolve/"
                    "c877bcd43f099cd0196738f714544e355477f3fd/EuroSAT.zip",
                ),
                md5="c8fa014336c82ac7804f0398fcb19387", unpack=True,
            ),
        ),
        layouts=(("images", "2750"), ("images", "EuroSAT_RGB"), ("images", "EuroSAT/2750")),
    ),
    Card(
        "food101", "images", "101 dishes, colour, various sizes.", 101, (), 75_750, 25_250,
        files=(
            Remote(
                ("http://data.vision.ee.ethz.ch/cvl/food-101.tar.gz",),
                md5="85eeb15f3717b99a5da872d97d918f87", unpack=True,
            ),
        ),
        layouts=(("food-101", "food-101"), ("images", "food-101/images")),
    ),
    Card(
        "caltech101", "images", "101 kinds of objects and a background, various sizes.",
        102, licence="CC BY 4.0",
        layouts=(("images", "101_ObjectCategories"), ("images", "caltech-101")),
        by_hand="unpack 101_ObjectCategories.tar.gz, which lies in caltech-101.zip of "
        "https://data.caltech.edu/records/mzrjq-6wc02",
    ),
    Card(
        "ag-news", "texts", "News in four topics.",
        4, ("World", "Sports", "Business", "Sci/Tech"), 120_000, 7_600, "non-commercial use only",
        files=tuple(
            Remote(
                (
                    "https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/"
                    f"ag_news_csv/{part}.csv",
                ),
                md5=md5,
            )
            for part, md5 in (
                ("train", "b1a00f826fdfbd249f79597b59e1dc12"),
                ("test", "d52ea96a97a2d943681189a97654912d"),
            )
        ),
        layouts=(("pair", "ag-news"), ("table", "ag_news_csv"), ("table", "AG_NEWS")),
    ),
    Card(
        "20newsgroups", "texts", "Posts to 20 newsgroups, split by date.", 20, (), 11_314, 7_532,
        files=(
            Remote(
                (
                    "https://ndownloader.figshare.com/files/5975967",
                    "https://people.csail.mit.edu/jrennie/20Newsgroups/20news-bydate.tar.gz",
                ),
                sha256="8f1b2514ca22a5ade8fbb9cfa5727df95fa587f4c87b786e15c759fa66d95610",
                unpack=True,
            ),
        ),
        layouts=(
            ("newsgroups", "20news-bydate_py3.pkz"), ("newsgroups", "20news-bydate.pkz"),
            ("texts", "20news-bydate"),
        ),
        system=(
            ("newsgroups", "${SCIKIT_LEARN_DATA}/20news-bydate_py3.pkz"),
            ("newsgroups", "~/scikit_learn_data/20news-bydate_py3.pkz"),
        ),
    ),
    Card(
        "bbc", "texts", "BBC news in five topics.",
        5, _words("business entertainment politics sport tech"), licence="research only",
        files=(Remote(("http://mlg.ucd.ie/files/datasets/bbc-fulltext.zip",), unpack=True),),
        layouts=(("table", "bbc-text.csv"), ("texts", "bbc-fulltext")),
    ),
    Card(
        "clinc150", "texts", "Requests to an assistant, 150 intents (CLINC150, data_full).",
        150, (), 15_000, 4_500, "CC BY 3.0", outlier_class="oos", by_hand=_CLINC,
    ),
    Card(
        "clinc150-oos", "texts", "Out-of-scope requests of CLINC150.",
        licence="CC BY 3.0", beside="clinc150", outlier_class="oos", is_outlier_class=True,
        by_hand=_CLINC,
    ),
    Card(
        "trec", "texts", "Questions, by type of answer.", 50, (), 5_452, 500,
        by_hand=_table_by_hand("TREC's questions (https://cogcomp.seas.upenn.edu/Data/QA/QC/)"),
    ),
    Card(
        "sst2", "texts", "Sentences of film reviews, negative or positive.", 2,
        ("negative", "positive"), 67_349, 872,
        by_hand=_table_by_hand("GLUE's SST-2 (https://gluebenchmark.com/tasks)"),
    ),
    Card(
        "imdb", "texts", "Film reviews, negative or positive.", 2,
        ("negative", "positive"), 25_000, 25_000,
        by_hand=_table_by_hand("https://ai.stanford.edu/~amaas/data/sentiment/"),
    ),
)  # fmt: skip

CARDS = {card.name: card for card in _CARDS}
