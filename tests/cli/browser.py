#!/usr/bin/env python3
"""Drive headless Chromium over its debugging pipe: open a page, ask it, look at it.

  browser.py FILE EXPRESSION...            open FILE, wait until its charts are drawn, evaluate each
                                           JavaScript expression there and print the result as JSON
  browser.py --screenshot OUT.png [--width N] [--dark] FILE [EXPRESSION...]

Every message on the page's console, every exception in it and every request that leaves the page is
printed as a line "console: ...", "exception: ..." or "request: ..." before the results. The last line
is "opened: N ms, all charts: M ms": from the start of the navigation until the charts in sight and all of
them are drawn.
"""

import argparse
import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
         "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
         "--host-resolver-rules=MAP * ~NOTFOUND", "--remote-debugging-pipe"]
LIMIT_S = 90


class Browser:
    """A browser with one tab, gone when the `with` block ends."""

    def __init__(self, program):
        self.profile = tempfile.mkdtemp(prefix="firn-browser.")
        to_read, self.to = os.pipe()
        self.came, from_write = os.pipe()

        def place_pipes():  # the browser reads from 3 and writes to 4
            high_read, high_write = os.dup(to_read), os.dup(from_write)
            os.dup2(high_read, 3)
            os.dup2(high_write, 4)

        self.process = subprocess.Popen([program, *FLAGS, f"--user-data-dir={self.profile}", "about:blank"],
                                        preexec_fn=place_pipes, close_fds=False, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(from_write)
        self.number = 0
        self.buffer = b""
        self.events = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = None
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    session = None

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.profile, ignore_errors=True)

    def receive(self):
        while b"\0" not in self.buffer:
            part = os.read(self.came, 1 << 20)
            if not part:
                sys.exit("the browser went away")
            self.buffer += part
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    sys.exit(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            return {"exception": details.get("exception", {}).get("description", details["text"])}
        return answer["result"].get("value")

    def wait_for_charts(self):
        """Returns the milliseconds from the navigation until they were drawn, by the page's clock."""
        start = time.monotonic()
        while time.monotonic() - start < LIMIT_S:
            drawn_ms = self.evaluate("document.documentElement?.dataset.charts ? "
                                     "Number(document.documentElement.dataset.drawnMs) : null")
            if drawn_ms is not None:
                return drawn_ms
            time.sleep(0.02)
        sys.exit("the charts were not drawn")

    def open(self, url):
        self.call("Page.navigate", url=url)
        return self.wait_for_charts()

    def complaints(self):
        lines = []
        for event in self.events:
            parameters = event.get("params", {})
            if event.get("method") == "Runtime.consoleAPICalled":
                lines.append(f"console: {json.dumps(parameters['args'])}")
            elif event.get("method") == "Log.entryAdded":
                lines.append(f"console: {parameters['entry']['text']}")
            elif event.get("method") == "Runtime.exceptionThrown":
                details = parameters["exceptionDetails"]
                lines.append(f"exception: {details.get('exception', {}).get('description', details['text'])}")
            elif event.get("method") == "Network.requestWillBeSent":
                url = parameters["request"]["url"]
                if not url.startswith("file:"):
                    lines.append(f"request: {url}")
        return lines

    def screenshot(self, path):
        image = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        pathlib.Path(path).write_bytes(base64.b64decode(image["data"]))

    def set_width(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=False)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--screenshot")
    parser.add_argument("--width", type=int, default=1400)
    parser.add_argument("--height", type=int, default=1000)
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("file")
    parser.add_argument("expressions", nargs="*")
    options = parser.parse_args()
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        sys.exit("no Chromium is installed")
    path, _, part = options.file.partition("#")
    url = pathlib.Path(path).resolve().as_uri() + (f"#{part}" if part else "")
    with Browser(program) as browser:
        browser.set_width(options.width, options.height)
        if options.dark:
            browser.call("Emulation.setEmulatedMedia",
                         features=[{"name": "prefers-color-scheme", "value": "dark"}])
        opened_ms = browser.open(url)
        results = []
        for expression in options.expressions:
            results.append(browser.evaluate(expression))
            browser.wait_for_charts()
        if options.screenshot:
            browser.screenshot(options.screenshot)
        for line in browser.complaints():
            print(line)
        for result in results:
            print(json.dumps(result))
        print(f"opened: {browser.evaluate('document.documentElement.dataset.readyMs')} ms, "
              f"all charts: {opened_ms} ms")


if __name__ == "__main__":
    main()
