#!/usr/bin/env python3
"""Drives a real, headless Chromium through a script of steps and prints the results as JSON.

    browser.py SCRIPT.json

BrowserSession.swift writes the script and reads the results, and BrowserStep.swift defines the steps; .ci/screenshots also
takes screenshots. A step that fails ends the script; the results up to it are printed, with the reason under "error".
"""

import base64
import hashlib
import importlib.util
import json
import os
import pathlib
import signal
import sys
import time

from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

# Properties of the current layout of the page. The contrast follows WCAG 2, for every element with its own text against
# its background colours.
FACTS = r"""
const root = document.documentElement;
const parse = text => {
    const numbers = (text.match(/[\d.]+/g) || []).map(Number);
    return { r: numbers[0] || 0, g: numbers[1] || 0, b: numbers[2] || 0, a: numbers.length > 3 ? numbers[3] : 1 };
};
const over = (top, bottom) => ({
    r: top.r * top.a + bottom.r * (1 - top.a), g: top.g * top.a + bottom.g * (1 - top.a),
    b: top.b * top.a + bottom.b * (1 - top.a), a: 1,
});
const canvas = () => {
    const declared = getComputedStyle(root).colorScheme + (document.querySelector('meta[name=color-scheme]')?.content || '');
    const isDark = declared.includes('dark') && matchMedia('(prefers-color-scheme: dark)').matches;
    return isDark ? { r: 18, g: 18, b: 18, a: 1 } : { r: 255, g: 255, b: 255, a: 1 };
};
const behind = element => {
    const layers = [];
    for (let node = element; node; node = node.parentElement) {
        const color = parse(getComputedStyle(node).backgroundColor);
        if (color.a > 0) layers.push(color);
        if (color.a === 1) break;
    }
    return layers.reverse().reduce((bottom, top) => over(top, bottom), canvas());
};
const luminance = color => {
    const [r, g, b] = [color.r, color.g, color.b].map(value => {
        const share = value / 255;
        return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = element => {
    const background = behind(element);
    const lights = [luminance(over(parse(getComputedStyle(element).color), background)), luminance(background)];
    return (Math.max(...lights) + 0.05) / (Math.min(...lights) + 0.05);
};
const isSeen = element => {
    const box = element.getBoundingClientRect();
    return box.width > 1 && box.height > 1 && getComputedStyle(element).visibility !== 'hidden';
};
let lowest = { ratio: 21, text: '' };
for (const element of document.body.querySelectorAll('*')) {
    const own = [...element.childNodes].filter(node => node.nodeType === 3).map(node => node.data.trim()).join(' ').trim();
    if (!own || !isSeen(element)) continue;
    const ratio = contrast(element);
    if (ratio < lowest.ratio) lowest = { ratio, text: own.slice(0, 80) };
}
const scrolls = element => {
    for (let node = element.parentElement; node && node !== document.body; node = node.parentElement) {
        if (['auto', 'scroll', 'hidden', 'clip'].includes(getComputedStyle(node).overflowX)) return true;
    }
    return false;
};
const beyond = [...document.body.querySelectorAll('*')]
    .filter(element => isSeen(element) && !scrolls(element))
    .filter(element => element.getBoundingClientRect().right > root.clientWidth + 0.5)
    .slice(0, 10)
    .map(element => element.tagName.toLowerCase() + ' ' + element.textContent.trim().slice(0, 40));
const hex = color => '#' + [color.r, color.g, color.b].map(v => Math.round(v).toString(16).padStart(2, '0')).join('');
return {
    title: document.title, text: document.body.innerText,
    scrollWidth: root.scrollWidth, clientWidth: root.clientWidth,
    beyondRightEdge: beyond,
    background: hex(behind(document.body)),
    lowestContrast: lowest.ratio, lowestContrastText: lowest.text,
    scripts: document.scripts.length,
};
"""


# Runs axe-core. A finding that needs a person's judgement ("incomplete") is reported too.
AXE = """
const done = arguments[0];
const list = findings => findings.map(finding =>
    finding.id + ': ' + finding.nodes.map(node => node.html.slice(0, 120)).join(' | '));
axe.run(document, { resultTypes: ['violations', 'incomplete'] })
    .then(result => done([...list(result.violations), ...list(result.incomplete)].join('\\n')), error => done(String(error)));
"""


class StepFailed(Exception):
    pass


class Browser:
    def __init__(self, script):
        self.script = script
        self.limit = script.get("limit", 20)
        self.profile = ""
        self.drivers = {}
        self.driver = self.launch()
        self.snapshots = {}
        self.values = []
        self.console = []

    def launch(self):
        script = self.script
        options = Options()
        options.binary_location = script["browser"]
        for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu",
                     "--hide-scrollbars", "--no-first-run", "--disable-background-networking",
                     "--user-data-dir=" + script["profile"] + self.profile):
            options.add_argument(flag)
        if key := script.get("bindsSessionsOf"):
            # A server whose certificate is only accepted can bind no session: this trusts its key. Without a TPM, the
            # browser's own keys are in software.
            digest = base64.b64encode(hashlib.sha256(base64.b64decode(key)).digest()).decode()
            options.add_argument("--ignore-certificate-errors-spki-list=" + digest)
            options.add_argument("--enable-features=DeviceBoundSessions,"
                                 "EnableBoundSessionCredentialsSoftwareKeysForManualTesting")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        options.accept_insecure_certs = script.get("acceptsAnyCertificate", False)
        driver = webdriver.Chrome(options=options, service=Service(script["driver"]))
        driver.set_page_load_timeout(self.limit)
        driver.set_script_timeout(self.limit)
        self.drivers[self.profile] = driver
        return driver

    def run(self, step):
        (kind, value), = step.items()
        getattr(self, "step_" + kind)(value)

    def step_size(self, value):
        # The size of the viewport: a window has a minimum width.
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": value["width"], "height": value["height"], "deviceScaleFactor": 1,
            "mobile": False})

    def step_scheme(self, value):
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": value}]})

    def step_open(self, value):
        self.driver.get(value)

    def step_back(self, _):
        self.driver.back()

    def step_reload(self, _):
        self.driver.refresh()

    def step_restart(self, _):
        self.read_console()
        self.driver.quit()
        self.driver = self.launch()

    def step_profile(self, value):
        cookies = self.cookies()
        self.read_console()
        self.profile = value
        if value in self.drivers:
            self.driver = self.drivers[value]
        else:
            self.driver = self.launch()
            # A client that has copied a cookie keeps it beyond its end.
            kept = [{name: value for name, value in cookie.items() if name != "expires"} for cookie in cookies]
            self.driver.execute_cdp_cmd("Storage.setCookies", {"cookies": kept})

    def step_tabs(self, value):
        """Opens tabs and waits until each shows the text; tabs that show the link are continued with it. With a button to
        confirm, it is clicked once all tabs show it, in the newest tab first."""
        text, link, confirm, prefix = value["text"], value["link"], value["confirm"], value["cookiePrefix"]
        first = self.driver.current_window_handle
        self.driver.execute_script(
            "for (let i = 0; i < arguments[0]; i++) window.open(arguments[1]);", value["count"], value["address"])
        state = {"most": 0, "continued": 0}

        def wait_for(what, look):
            def count_and_look():
                count = sum(cookie["name"].startswith(prefix) for cookie in self.cookies())
                state["most"] = max(state["most"], count)
                return look()

            return self.wait(what, count_and_look)

        def shows_text():
            return text in self.driver.find_element(By.TAG_NAME, "body").text

        wait_for("the tabs are open", lambda: len(self.driver.window_handles) > value["count"])
        tabs = [handle for handle in self.driver.window_handles if handle != first]
        for handle in tabs if confirm else []:
            self.driver.switch_to.window(handle)
            wait_for(f"a tab shows {confirm}", lambda: self.shown(confirm))
        for handle in reversed(tabs):
            self.driver.switch_to.window(handle)
            is_continued = False
            for _ in range(5):
                wait_for(f"a tab shows {text!r}", lambda: shows_text() or self.shown(link) or confirm and self.shown(confirm))
                if shows_text():
                    break
                links = self.shown(link)
                is_continued = is_continued or bool(links)
                element = (links or self.shown(confirm))[0]
                element.click()
                wait_for("the next page", lambda: self.is_stale(element))
            if not shows_text():
                raise StepFailed(f"a tab does not show {text!r}")
            state["continued"] += is_continued
            self.read_console()
            self.driver.close()
        self.driver.switch_to.window(first)
        self.values.append(json.dumps(state))

    def step_click(self, value):
        self.found(value).click()

    def step_type(self, value):
        field = self.found(value["into"])
        field.clear()
        field.send_keys(value["text"])

    def step_press(self, value):
        self.driver.switch_to.active_element.send_keys(getattr(Keys, value.upper()))

    def step_waitForText(self, value):
        self.wait(f"the text {value!r}", lambda: value in self.driver.find_element(By.TAG_NAME, "body").text)

    def step_waitFor(self, value):
        self.found(value)

    def step_waitForCookie(self, value):
        self.wait(f"there is a cookie {value}", lambda: any(cookie["name"] == value for cookie in self.cookies()))

    def step_waitUntilGone(self, value):
        self.wait(f"{value} is not shown", lambda: not self.shown(value))

    def step_evaluate(self, value):
        self.values.append(self.driver.execute_script(value))

    def step_axe(self, _):
        package = importlib.util.find_spec("axe_playwright_python")
        if package is None:
            raise StepFailed("no axe-core: deploy/python.sh Tests/requirements.txt installs it")
        source = pathlib.Path(package.origin).parent / "axe.min.js"
        self.driver.execute_script(source.read_text(encoding="utf-8"))
        self.values.append(self.driver.execute_async_script(AXE))

    def step_deleteCookies(self, _):
        self.driver.delete_all_cookies()

    def step_snapshot(self, value):
        facts = self.driver.execute_script(FACTS)
        facts["cookies"] = [
            {"name": cookie["name"], "httpOnly": cookie["httpOnly"], "secure": cookie["secure"],
             "sameSite": cookie.get("sameSite", ""),
             "lifetime": cookie["expiry"] - time.time() if "expiry" in cookie else None}
            for cookie in self.driver.get_cookies()]
        self.snapshots[value] = facts

    def step_screenshot(self, value):
        order = {"format": "png"}
        if value.get("isWhole"):
            size = self.driver.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
            order["captureBeyondViewport"] = True
            order["clip"] = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self.driver.execute_cdp_cmd("Page.captureScreenshot", order)
        with open(value["path"], "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def cookies(self):
        """All cookies of the profile, with those that no page can read."""
        return self.driver.execute_cdp_cmd("Storage.getCookies", {})["cookies"]

    @staticmethod
    def is_stale(element):
        try:
            element.is_enabled()
            return False
        except WebDriverException:
            return True

    def shown(self, selector):
        return [element for element in self.driver.find_elements(By.CSS_SELECTOR, selector) if element.is_displayed()]

    def found(self, selector):
        return self.wait(f"{selector} is shown", lambda: self.shown(selector))[0]

    def wait(self, what, look):
        end = time.monotonic() + self.limit
        while True:
            try:
                result = look()
            except WebDriverException:
                # The page changed during the call.
                result = None
            if result:
                return result
            if time.monotonic() > end:
                text = self.driver.find_element(By.TAG_NAME, "body").text
                raise StepFailed(f"not within the time limit: {what}; text of the page:\n{text[:2000]}")
            time.sleep(0.02)

    def quit(self):
        for driver in self.drivers.values():
            driver.quit()

    def read_console(self):
        for line in self.driver.get_log("browser"):
            self.console.append({"level": line["level"], "source": line.get("source", ""), "text": line["message"]})

    def answer(self, error):
        self.read_console()
        return {"snapshots": self.snapshots, "values": self.values, "console": self.console, "error": error}


def give_up(number, frame):
    raise StepFailed("the script exceeded its time limit")


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        script = json.load(file)
    os.environ.setdefault("HOME", script["profile"])
    # Without these handlers the browser process would keep running if this process were killed.
    for number in (signal.SIGALRM, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, give_up)
    signal.alarm(script["wholeLimit"])
    browser = Browser(script)
    try:
        error = None
        for index, step in enumerate(script["steps"]):
            try:
                browser.run(step)
            except (WebDriverException, StepFailed) as failure:
                error = f"step {index + 1}, {json.dumps(step)[:200]}: {failure}"
                break
        print(json.dumps(browser.answer(error)))
    finally:
        browser.quit()


if __name__ == "__main__":
    main()
