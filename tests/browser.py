"""A real browser to look at pages with."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest


def open_browser(profile: Path) -> Any:
    """Open headless Chromium; without one the test is skipped, or fails if PROXSTREAM_NEEDS_BROWSER is set."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        missing = "Chromium and chromedriver are needed to look at pages"
        if os.environ.get("PROXSTREAM_NEEDS_BROWSER"):
            pytest.fail(missing)
        pytest.skip(missing)
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in (
        "headless",
        "no-sandbox",
        "disable-gpu",
        "disable-quic",
        "no-first-run",
        "disable-background-networking",
        "disable-component-update",
        "disable-sync",
        "disable-dev-shm-usage",
        f"user-data-dir={profile}",
    ):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options, webdriver.ChromeService(driver))


def look_at(browser: Any, page: Path, n_figures: int | None = None) -> None:
    """Check that a page is shown whole: figures there, nothing amiss on the console, nothing to scroll sideways to."""
    for width in (400, 1200):
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        browser.get(page.as_uri())
        assert browser.execute_script("return window.innerWidth") == width
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width, f"{page.name} at {width}"
        script = (
            "return Promise.all([...document.images].map(i => { i.loading = 'eager'; return i.decode(); }))"
            ".then(() => [...document.images].map(i => [i.naturalWidth, i.getBoundingClientRect().width, i.alt]))"
        )
        images = browser.execute_script(script)
        assert n_figures is None or len(images) == n_figures
        for natural, shown, alt in images:
            assert natural > 0
            assert shown > 100
            assert alt
    assert [entry for entry in browser.get_log("browser") if entry["level"] != "INFO"] == []
    assert browser.title.endswith("proxstream")


def check_light_and_dark(browser: Any) -> None:
    """Check that the open page has a light ground for readers who prefer light, and a dark one for the others."""
    grounds = []
    for scheme in ("light", "dark"):
        prefer(browser, scheme)
        grounds.append(browser.execute_script("return getComputedStyle(document.body).backgroundColor"))
    prefer(browser, None)
    light, dark = (sum(map(int, re.findall(r"\d+", ground)[:3])) for ground in grounds)
    assert light > 700
    assert dark < 100


def prefer(browser: Any, scheme: str | None) -> None:
    """Let the reader prefer light or dark pages, or neither."""
    features = [] if scheme is None else [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
