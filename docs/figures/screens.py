"""Take docs/images/review-card.png, review-page.png and clean-report.png: the review page and the report.

``python docs/figures/screens.py [posts] [digits]``

Needs Chromium and ``pip install playwright``.
"""

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

import pmlkit
from pmlkit.data import load_digit_strips

DOCS = Path(__file__).resolve().parent.parent
IMAGES = DOCS / "images"


def wait(page, condition: str) -> None:
    """Wait until an expression is true in the page, whose own policy forbids Playwright's way."""
    for _ in range(1000):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(20)
    raise TimeoutError(condition)


def review(browser, result, path: Path, *, is_right, title: str, n_answers: int, pace: int) -> None:
    """Answer some questions on the page, by the keyboard, then take its picture."""
    with tempfile.TemporaryDirectory() as folder:
        server = result.review(Path(folder, "review.sqlite"), open_browser=False, title=title)
        try:
            page = browser.new_page(viewport={"width": 1300, "height": 820}, device_scale_factor=1.5)
            page.goto(server.address)
            for count in range(n_answers + 1):
                wait(page, f"parseInt(document.querySelector('#facts dd')?.textContent) === {count}")
                wait(page, "document.querySelector('#card').getAttribute('aria-busy') === 'false'")
                if count < n_answers:
                    page.wait_for_timeout(pace)
                    row = page.inner_text("#row-name").removeprefix("row ").strip()
                    page.keyboard.press("a" if is_right(row, page.inner_text("#question strong")) else "x")
            page.wait_for_timeout(500)
            page.screenshot(path=path)
        finally:
            server.close()


def posts(browser) -> None:
    """Take the report and the review page of the tutorial's table."""
    table = pmlkit.open_table(DOCS / "data" / "posts.csv", labels="tags", text="body", ignore="true_tags")
    result = pmlkit.clean(table)
    truth = dict(
        zip(map(str, table.row_names), (set(cell.split(";")) for cell in table.cells("true_tags")), strict=True)
    )
    with tempfile.TemporaryDirectory() as folder:
        typed = "posts.csv --labels tags --text body --option ignore=true_tags"
        result.report(Path(folder, "report.html"), title="posts.csv", table=typed)
        page = browser.new_page(viewport={"width": 1100, "height": 760}, device_scale_factor=1.5)
        page.goto(Path(folder, "report.html").as_uri())
        chart = page.locator("svg").first.bounding_box()
        clip = {"x": 0, "y": 0, "width": 1100, "height": chart["y"] + chart["height"] + 24}
        page.screenshot(path=IMAGES / "clean-report.png", clip=clip, full_page=True)
    right = lambda row, label: label in truth[row]  # noqa: E731
    review(browser, result, IMAGES / "review-card.png", is_right=right, title="posts.csv", n_answers=60, pace=900)


def digits(browser) -> None:
    """Take the review page of the digit strips, after enough answers for a promise."""
    strips = load_digit_strips(800, random_state=0)
    result = pmlkit.clean(strips.X, strips.Y, label_names=strips.label_names, media=strips.media)
    right = lambda row, label: strips.truth[int(row), strips.label_names.index(label)] == 1  # noqa: E731
    title = "800 strips of handwritten digits"
    review(browser, result, IMAGES / "review-page.png", is_right=right, title=title, n_answers=160, pace=900)


def main(names: list[str]) -> None:
    """Take the pictures that are named, or all."""
    with sync_playwright() as driver:
        chromium = shutil.which("chromium")
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for name, take in {"posts": posts, "digits": digits}.items():
            if name in names or not names:
                take(browser)
                print(f"took the pictures of {name}")
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
