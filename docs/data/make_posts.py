"""Make docs/data/posts.csv: short posts whose tags were given by a careless crowd, for the tutorials.

The posts are made of random words, not taken from anybody. Most words follow from the true tags; about a quarter of the
tags that a post carries are false, some for no reason, some because of a single word.
"""

import csv
from pathlib import Path

import numpy as np

TOPICS = {
    "baking": "oven dough flour yeast crust loaf sourdough butter knead rye",
    "cycling": "saddle pedal chain gear tyre brake helmet gravel climb spoke",
    "gardening": "soil seeds compost tomato prune hedge slug watering bulbs mulch",
    "hiking": "trail summit boots ridge map valley rucksack hut contour stream",
    "music": "chord melody violin rehearsal tempo choir guitar encore rhythm amplifier",
    "photography": "lens aperture tripod exposure shutter portrait darkroom focus filter negative",
    "sewing": "fabric needle thread hem pattern zip bobbin linen stitch seam",
    "woodwork": "plane chisel oak joint glue varnish sawdust dovetail clamp bench",
}
OPENINGS = (
    "Last weekend we had", "A question about", "My first try with", "Finally got to", "Has anybody seen",
    "Some notes on", "I keep thinking about", "Two years of", "Nobody told me about", "A small success:",
)  # fmt: skip
FILLERS = "the a with and old new our good after before little more quite again from house day friend long way"


def main(n_posts: int = 1500) -> None:
    """Write the table."""
    rng = np.random.default_rng(0)
    names = list(TOPICS)
    rows = []
    for number in range(n_posts):
        true = rng.choice(len(names), size=rng.choice([1, 2, 3], p=[0.5, 0.4, 0.1]), replace=False).tolist()
        words = [word for k in true for word in rng.choice(TOPICS[names[k]].split(), size=rng.integers(1, 4))]
        others = [k for k in range(len(names)) if k not in true]
        false = set()
        if rng.random() < 0.35:  # One word of another topic, for which some people give its tag.
            topic = int(rng.choice(others))
            words.append(rng.choice(TOPICS[names[topic]].split()))
            false |= {topic} if rng.random() < 0.3 else set()
        if rng.random() < 0.4:  # A tag for no reason.
            false.add(int(rng.choice(others)))
        given = sorted(names[k] for k in {*true, *false})
        text = rng.permutation([*words, *rng.choice(FILLERS.split(), size=len(words))])
        body = f"{rng.choice(OPENINGS)} {' '.join(text)}."
        rows.append([f"p{number:04d}", body, ";".join(given), ";".join(sorted(names[k] for k in true))])
    target = Path(__file__).with_name("posts.csv")
    with target.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream, lineterminator="\n").writerows([["post_id", "body", "tags", "true_tags"], *rows])
    print(f"wrote {target.name}: {len(rows)} posts")


if __name__ == "__main__":
    main()
