"""Take docs/images/review-card.png and clean-report.png: the review page and the report of the tutorial's table.

Needs Chromium and ``pip install playwright``.
"""

import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

import pmlkit

DOCS = Path(__file__).resolve().parent.parent
N_ANSWERS = 60
PACE = 900  # milliseconds per answer: the page shows how fast it went


def wait(page, condition: str) -> None:
    """Wait until an expression is true in the page, whose own policy forbids Playwright's way."""
    for _ in range(1000):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(20)
    raise TimeoutError(condition)


def main() -> None:
    """Answer some questions from the true tags, then take the pictures."""
    table = pmlkit.open_table(DOCS / "data" / "posts.csv", labels="tags", text="body", ignore="true_tags")
    result = pmlkit.clean(table)
    truth = [set(cell.split(";")) for cell in table.cells("true_tags")]
    names = {str(name): row for row, name in enumerate(table.row_names)}
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        chromium = shutil.which("chromium")
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        result.report(Path(folder, "report.html"), title="posts.csv")
        page = browser.new_page(viewport={"width": 1100, "height": 760}, device_scale_factor=1.5)
        page.goto(Path(folder, "report.html").as_uri())
        page.screenshot(path=DOCS / "images" / "clean-report.png")
        server = result.review(Path(folder, "review.sqlite"), open_browser=False, title="posts.csv")
        try:
            page = browser.new_page(viewport={"width": 1300, "height": 820}, device_scale_factor=1.5)
            page.goto(server.address)
            for count in range(N_ANSWERS + 1):
                wait(page, f"document.querySelector('#facts dd').textContent.startsWith('{count}')")
                wait(page, "document.querySelector('#card').getAttribute('aria-busy') === 'false'")
                if count < N_ANSWERS:
                    page.wait_for_timeout(PACE)
                    row = names[page.inner_text("#row-name").removeprefix("row ").strip()]
                    page.keyboard.press("a" if page.inner_text("#question strong") in truth[row] else "x")
            page.wait_for_timeout(500)
            page.screenshot(path=DOCS / "images" / "review-card.png")
        finally:
            server.close()
            browser.close()
    print("wrote docs/images/clean-report.png and review-card.png")


if __name__ == "__main__":
    main()
