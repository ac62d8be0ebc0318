"""The report of `maru similar`, as a reader meets it in a browser.

    report.py MARU    runs all checks; one line each, and "N passed, M failed" in the end

Each check has a page of its own. MARU_TEST_SCALE multiplies the broken files of verdicts."""

import io
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import traceback
import zipfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from browser import Browser  # noqa: E402

MARU = sys.argv[1]
FOLDER = tempfile.TemporaryDirectory(prefix="maru-report-")
ROOT = FOLDER.name
CORPUS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../examples/corpus")
SCALE = int(os.environ.get("MARU_TEST_SCALE", "1"))


def path(*names):
    return os.path.join(ROOT, *names)


def write(name, text):
    os.makedirs(os.path.dirname(path(name)), exist_ok=True)
    with open(path(name), "w", encoding="utf-8", newline="") as out:
        out.write(text)


def similar(*arguments, status=0):
    done = subprocess.run([MARU, "similar", *arguments], capture_output=True, timeout=300, check=False)
    assert done.returncode == status, (arguments, done.returncode, done.stderr.decode()[:500])
    return done.stdout.decode()


STATEMENTS = ["sum += i * 3;", "if (i > sum) { sum = i; }", "while (sum > 9) { sum--; }", "print(\"part\", sum, i);", "sum = sum == i ? 1 : f(i);", "list.add(new Item(i));"]


def method(n, name):
    """Each number another one, by its digits."""
    body = "".join(f"        {STATEMENTS[n // 6 ** d % 6]}\n" for d in range(3))
    return f"    int {name}{n}(int i) {{\n        int sum = {n};\n{body}        return sum;\n    }}\n\n"


def program(order, name="part", comment=""):
    return f"// {comment} \u00e4\u20ac\r\nclass Main {{\r\n" + "".join(method(n, name) for n in order) + "}\r\n"


def corpus():
    write("in/ada/Main.java", program(range(40), comment="by Ada Lovelace"))
    write("in/bob/src/Main.java", program([*range(20, 40), *range(20)], name="step"))
    write("in/cy/A.java", "class A { void f() { while (true) { g(1, 2, 3); } } }\n")
    write("in/cy/B.java", program(range(3)))
    evil = "</script><script>window.owned = 1</script><img src=x onerror='window.owned = 2'>"
    write("in/<script>window.owned=3<\\script>/<img src=x onerror=owned=4>.java", "/* " + evil + " */\n" + program(range(30)) + f'class X {{ String s = "{evil}"; }}\n')
    write("list.csv", "submission,student\nada,Ada Lovelace\nbob,Bob & <b>Co</b>\n")


PAGE = path("report.html")


def pair_of(browser, one, other):
    """The position of that pair in the ranking."""
    names = browser.value("[...document.querySelectorAll('tr.pair')].map(r => [r.cells[1].firstChild.textContent, r.cells[2].firstChild.textContent, +r.dataset.pair])")
    return next(n for a, b, n in names if {a, b} == {one, other})


def opened(browser, page=PAGE):
    browser.open("file://" + page)
    return browser


def quiet(browser):
    said, asked = browser.troubles()
    assert not said and not asked, (said, asked)


def wait_for_file(name):
    """That a browser downloads."""
    for _ in range(600):
        if os.path.exists(name) and os.path.getsize(name):
            return
        time.sleep(0.05)
    raise RuntimeError(name + " does not come")


def open_pair(browser, one, other):
    browser.value(f"maruSimilar.openPair({pair_of(browser, one, other)})")
    browser.wait("document.querySelectorAll('.pane').length === 2")


# ---- checks ---------------------------------------------------------------------


def opens_and_asks_for_nothing():
    with Browser() as b:
        opened(b)
        pairs = json.loads(similar("--json", "-", path("in")))["pairs"]
        assert b.value("document.querySelectorAll('tr.pair').length") == len(pairs) == 6
        assert b.value("document.querySelectorAll('#histogram rect').length") == 50
        assert b.value("[...document.querySelectorAll('#ranking td.score')].every((c, i, all) => i === 0 || parseInt(all[i - 1].textContent) >= parseInt(c.textContent))")
        quiet(b)


def a_pair_opens_by_keys_and_shows_what_json_says():
    with Browser() as b:
        opened(b)
        rows = json.loads(similar("--json", "-", path("in")))
        names = [s["name"] for s in rows["submissions"]]
        ranked = next(i for i, p in enumerate(rows["pairs"]) if {p["left"], p["right"]} == {"ada", "bob"})
        for _ in range(ranked):
            b.press("j")
        b.press("Enter")
        b.wait("document.querySelectorAll('.pane').length === 2")
        pair = rows["pairs"][ranked]
        assert len(pair["matches"]) >= 2 and any(m["moved"] for m in pair["matches"]), pair
        for side in ("left", "right"):
            files = rows["submissions"][names.index(pair[side])]["paths"]
            marks = dict(b.value(f"[...document.querySelectorAll('.pane[data-side=\"{0 if side == 'left' else 1}\"] mark')].map(m => [m.dataset.tile, m.textContent])"))
            assert len(marks) == len(pair["matches"])
            for n, match in enumerate(pair["matches"]):
                with open(files[match[side]["file"]], "rb") as file:
                    text = file.read()[match[side]["start"]:match[side]["start"] + match[side]["bytes"]]
                assert text.decode().replace("\r", "") == marks[str(n)], (n, text)
        before = b.value("location.hash")
        b.press("J")
        b.wait(f"location.hash !== '{before}'")
        b.press("Escape")
        b.wait("document.getElementById('pair').hidden")
        quiet(b)


def tiles_line_up():
    with Browser() as b:
        opened(b)
        open_pair(b, "ada", "bob")
        # A click on a match brings its counterpart to the same height, where there is room to scroll.
        heights = b.value("""(() => { const out = [];
          for (const m of document.querySelectorAll('.pane[data-side="0"] mark')) {
            m.closest('.pane').scrollTop = m.offsetTop - 100; m.click();
            const other = document.querySelector(`.pane[data-side="1"] mark[data-tile="${m.dataset.tile}"]`), pane = other.closest('.pane');
            const top = e => e.getBoundingClientRect().top - e.closest('.pane').getBoundingClientRect().top;
            const end = pane.scrollHeight - pane.clientHeight, stuck = pane.scrollTop <= 1 || pane.scrollTop >= end - 1;
            out.push([Math.abs(top(m) - top(other)), stuck, m.classList.contains('on') && other.classList.contains('on')]);
          } return out; })()""")
        assert len(heights) >= 2 and all(on for _, _, on in heights), heights
        assert all(off <= 2 or stuck for off, stuck, _ in heights) and not all(stuck for _, stuck, _ in heights), heights
        quiet(b)


def filter_threshold_and_names():
    with Browser() as b:
        opened(b)
        rows = "document.querySelectorAll('tr.pair').length"
        b.press("/")
        b.call("Input.insertText", text="lovelace")
        b.wait(rows + " === 3")
        assert "3 of 6" in b.value("document.getElementById('count').textContent")
        b.value("(() => { const f = document.getElementById('filter'); f.value = ''; f.oninput({target: f}); })()")
        clusters = "document.querySelectorAll('#graph circle').length"
        high = b.value("document.getElementById('threshold').oninput({target: {value: '1'}}), " + clusters)
        low = b.value("document.getElementById('threshold').oninput({target: {value: '0.2'}}), " + clusters)
        assert low > high, (low, high)
        shown = "document.body.innerText + [...document.querySelectorAll('title')].map(t => t.textContent)"
        assert "bob" in b.value(shown)
        b.value("document.getElementById('names').click()")
        for page in ("list", "pair"):
            if page == "pair":
                b.value("maruSimilar.openPair(0)")
                b.wait("document.querySelectorAll('.pane').length === 2")
            text = b.value("[...document.querySelectorAll('body *')].filter(e => e.checkVisibility() && !e.closest('.pane')).map(e => [...e.childNodes].filter(n => n.nodeType === 3).map(n => n.textContent).join(' ')).join(' ')")
            assert not any(name in text for name in ("ada", "bob", "Lovelace", ROOT)), text
        quiet(b)


def verdicts_make_the_round():
    with Browser() as b:
        opened(b)
        b.call("Page.setDownloadBehavior", behavior="allow", downloadPath=ROOT)
        open_pair(b, "ada", "bob")
        # A note is no verdict, and nothing is left of one that is taken back.
        noted = "(() => { const n = document.getElementById('note'); n.value = '%s'; n.oninput({target: n}); })()"
        b.value(noted % "look again")
        assert [(v["verdict"], v["note"]) for v in json.loads(b.value("maruSimilar.verdictText()"))["verdicts"]] == [("", "look again")]
        b.value(noted % "")
        assert json.loads(b.value("maruSimilar.verdictText()"))["verdicts"] == []
        b.press("1")
        b.value("(() => { const n = document.getElementById('note'); n.value = 'methods moved \u2713'; n.oninput({target: n}); })()")
        b.press("s")
        b.wait("document.getElementById('said').textContent.includes('saved')")
        wait_for_file(path("verdicts.json"))
        quiet(b)
    with open(path("verdicts.json"), encoding="utf-8") as file:
        saved = json.load(file)
    assert saved == {"schema": "maru-similar-verdicts/1", "verdicts": [{"left": "ada", "right": "bob", "verdict": "copy", "note": "methods moved \u2713"}]}, saved
    said = "[...document.querySelectorAll('tr.pair')].map(r => r.lastChild.textContent).filter(t => t)"
    # By the page's own button, into a report that does not know it.
    with Browser() as b:
        opened(b)
        assert b.value(said) == []
        b.call("DOM.enable")
        root = b.call("DOM.getDocument")["root"]["nodeId"]
        node = b.call("DOM.querySelector", nodeId=root, selector="#file")["nodeId"]
        b.call("DOM.setFileInputFiles", nodeId=node, files=[path("verdicts.json")])
        b.wait(f"{said}.join() === 'copy'")
        assert json.loads(b.value("maruSimilar.verdictText()")) == saved
        quiet(b)
    # By the command, into a new report.
    similar("--verdicts", path("verdicts.json"), "--html", path("again.html"), path("in"))
    with Browser() as b:
        opened(b, path("again.html"))
        assert b.value(said) == ["copy"]
        assert json.loads(b.value("maruSimilar.verdictText()")) == saved


def broken_verdicts_are_said_and_change_nothing():
    write("broken.json", "{")
    similar("--verdicts", path("broken.json"), path("in"), status=65)
    dice = random.Random(17)
    good = json.dumps({"schema": "maru-similar-verdicts/1", "verdicts": [{"left": "ada", "right": "bob", "verdict": "copy", "note": "n"}, {"left": "ada", "right": "elsewhere", "verdict": "unsure"}]})
    with Browser() as b:
        opened(b)
        for text in ("", "{", "[]", "null", '{"schema":"maru-similar-verdicts/1"}', '{"schema":"maru-similar-verdicts/1","verdicts":{}}', '{"schema":"other","verdicts":[]}'):
            b.value(f"maruSimilar.loadVerdicts({json.dumps(text)})")
            assert b.value("document.getElementById('said').textContent").startswith("These are no verdicts"), text
        b.value("maruSimilar.loadVerdicts('{\"schema\":\"maru-similar-verdicts/1\",\"verdicts\":[null,1,{},{\"left\":1,\"right\":2,\"verdict\":\"copy\"},{\"left\":\"ada\",\"right\":\"bob\",\"verdict\":\"evil\"}]}')")
        assert b.value("document.getElementById('said').textContent") == "0 verdicts loaded, 5 broken ones left out."
        for _ in range(100 * SCALE):
            text = list(good)
            for _ in range(dice.randint(1, 4)):
                text[dice.randrange(len(text))] = dice.choice('{}[]",:x<0\\')
            b.value(f"maruSimilar.loadVerdicts({json.dumps(''.join(text))})")
            kept = json.loads(b.value("maruSimilar.verdictText()"))
            assert all(v["verdict"] in ("copy", "unsure", "innocent") for v in kept["verdicts"]), kept
        b.value(f"maruSimilar.loadVerdicts({json.dumps(good)})")
        assert "of pairs that are not here (kept)" in b.value("document.getElementById('said').textContent")
        quiet(b)


def hostile_text_stays_text():
    with Browser() as b:
        opened(b)
        pair = b.value("[...document.querySelectorAll('tr.pair')].map(r => [r.textContent, +r.dataset.pair]).filter(r => r[0].includes('<script>'))[0][1]")
        b.value(f"maruSimilar.openPair({pair})")
        b.wait("document.querySelectorAll('.pane').length === 2")
        assert b.value("window.owned") is None
        assert b.value("document.querySelectorAll('img').length") == 0
        assert b.value("document.querySelectorAll('script').length") == 4
        text = b.value("document.querySelector('.panes').innerText")
        assert "</script><script>window.owned" in text and "<img src=x onerror=owned=4>.java" in text, text[:300]
        quiet(b)


def shared_pages_name_nobody():
    similar("--anonymous", "--students", path("list.csv"), "--html", path("shared.html"), "--json", path("shared.json"), "--csv", path("shared.csv"), path("in"))
    for name in ("shared.html", "shared.json", "shared.csv"):
        with open(path(name), encoding="utf-8") as file:
            text = file.read()
        assert not any(word in text for word in ("ada", "bob", "Lovelace", "Main.java", ROOT)), name
    with Browser() as b:
        opened(b, path("shared.html"))
        b.value("maruSimilar.openPair(0)")
        b.wait("document.querySelectorAll('.pane').length === 2")
        assert b.value("document.querySelectorAll('mark').length") > 0
        quiet(b)


def dark_and_paper():
    colour = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + +b, 0)"
    with Browser(dark=True) as b:
        assert opened(b).value(colour) < 200
    with Browser(width=960) as b:
        middles = "[...document.querySelectorAll('.bar > *')].map(e => e.getBoundingClientRect()).filter(r => r.width).map(r => (r.top + r.bottom) / 2)"
        bar = opened(b).value(middles)
        assert len(bar) == 8 and max(bar) - min(bar) < 4, bar
    with Browser(width=420) as b:
        assert opened(b).value(colour) > 600
        assert b.value("document.documentElement.scrollWidth") <= 420
        open_pair(b, "ada", "bob")
        assert b.value("document.documentElement.scrollWidth") <= 420
        b.press("1")
        b.call("Emulation.setEmulatedMedia", media="print")
        assert b.value("getComputedStyle(document.querySelector('.bar')).display") == "none"
        # Of the verdicts the one that was given.
        assert b.value("[...document.querySelectorAll('.judge button')].filter(b => getComputedStyle(b).display !== 'none').map(b => b.textContent).join()") == "copy"
        assert b.value("getComputedStyle(document.querySelector('.pane')).overflow") == "visible"


def a_thousand_submissions_stay_below_10_mb():
    dice = random.Random(4)
    for n in range(1000):
        noise = dice.randbytes(4500).hex()
        write(f"many/s{n:04}.java", f"/* {noise} */\n" + program(dice.sample(range(60), 3)))
    similar("--threshold", "0.3", "--html", path("many.html"), "--top", "400", path("many"))
    size = os.path.getsize(path("many.html"))
    assert size <= 10_000_000, size
    with Browser() as b:
        opened(b, path("many.html"))
        assert b.value("document.getElementById('packed') !== null")
        clusters = "document.getElementById('graph').innerText"
        b.value("document.getElementById('threshold').oninput({target: {value: '0'}})")
        assert "of the first 5000 pairs" in b.value(clusters), b.value(clusters)
        b.value("document.getElementById('threshold').oninput({target: {value: '0.99'}})")
        assert "of the first 5000 pairs" not in b.value(clusters), b.value(clusters)
        b.value("maruSimilar.openPair(0)")
        b.wait("document.querySelectorAll('mark').length > 1")
        b.value("maruSimilar.openPair(4999)")
        b.wait("document.getElementById('pair').innerText.includes('not in the report')")
        quiet(b)
    # A browser that cannot unpack says so and ranks.
    with Browser() as b:
        b.call("Page.addScriptToEvaluateOnNewDocument", source="delete window.DecompressionStream")
        opened(b, path("many.html"))
        assert "cannot unpack" in b.value("document.getElementById('said').textContent")
        assert b.value("document.querySelectorAll('tr.pair').length") == 5000


def platform_export():
    """As a learning platform writes it: one zip, in it a folder a student, in that what they handed in, zipped."""
    sources = sorted(os.listdir(CORPUS))
    with zipfile.ZipFile(path("export.zip"), "w", zipfile.ZIP_DEFLATED) as out:
        for n, name in enumerate(sources):
            handed_in = io.BytesIO()
            with zipfile.ZipFile(handed_in, "w", zipfile.ZIP_DEFLATED) as inner:
                inner.write(os.path.join(CORPUS, name), "src/" + name)
            out.writestr(f"{name.removesuffix('.java')}_{4711 + n}_file/work.zip", handed_in.getvalue())
    return len(sources)


def a_teacher_walks_from_the_export_to_an_understood_pair():
    steps, since = [], time.monotonic()

    def step(what):
        nonlocal since
        steps.append((what, time.monotonic() - since))
        since = time.monotonic()

    students = platform_export()
    since = time.monotonic()
    table = similar("--html", path("walk.html"), path("export.zip"))
    assert f"{students} submissions" in table, table
    step("the command")
    with Browser() as b:
        b.call("Page.setDownloadBehavior", behavior="allow", downloadPath=path("saved"))
        since = time.monotonic()
        opened(b, path("walk.html"))
        one, other = b.value("[1, 2].map(n => document.querySelector('tr.pair').cells[n].firstChild.textContent)")
        # A copy is called after what it was made of.
        assert one.split("-")[:2] == other.split("_")[0].split("-")[:2], (one, other)
        step("the report opens")
        b.press("Enter")
        b.wait("document.querySelectorAll('.pane').length === 2")
        step("the first pair opens")
        marks = [b.value(f"document.querySelectorAll('.pane[data-side=\"{side}\"] mark').length") for side in (0, 1)]
        assert marks[0] == marks[1] > 0, marks
        b.value("document.querySelector('.pane[data-side=\"0\"] mark').click()")
        b.wait("document.querySelectorAll('mark.on').length === 2")
        step("a match brings its counterpart")
        said = b.value("document.getElementById('said').textContent")
        reason = said.split(": ")[1].split(", ")[0]
        assert reason in ("same text", "same literals", "renamed", "same structure"), said
        assert reason in b.value("document.querySelector('mark.on').title"), said
        step("its reason stands there")
        b.press("1")
        b.value("(() => { const n = document.getElementById('note'); n.value = 'talk to both'; n.oninput({target: n}); document.body.focus(); })()")
        b.press("s")
        b.wait("document.getElementById('said').textContent.includes('saved')")
        wait_for_file(path("saved", "verdicts.json"))
        step("the verdict is saved")
        quiet(b)
    with open(path("saved", "verdicts.json"), encoding="utf-8") as file:
        assert json.load(file)["verdicts"] == [{"left": min(one, other), "right": max(one, other), "verdict": "copy", "note": "talk to both"}]
    for what, seconds in steps:
        print(f"  {seconds:6.2f} s  {what}")
    print(f"  {sum(seconds for _, seconds in steps):6.2f} s  the machine's part of a walk through {students} submissions; a person's was not measured")


CHECKS = [
    opens_and_asks_for_nothing, a_pair_opens_by_keys_and_shows_what_json_says, tiles_line_up, filter_threshold_and_names, verdicts_make_the_round,
    broken_verdicts_are_said_and_change_nothing, a_teacher_walks_from_the_export_to_an_understood_pair, hostile_text_stays_text, shared_pages_name_nobody, dark_and_paper, a_thousand_submissions_stay_below_10_mb,
]


def main():
    corpus()
    similar("--students", path("list.csv"), "--html", PAGE, path("in"))
    failed = 0
    for check in CHECKS:
        name = check.__name__.replace("_", " ")
        begun = time.monotonic()
        try:
            check()
            print(f"passed: {name} ({time.monotonic() - begun:.1f} s)", flush=True)
        except Exception:
            failed += 1
            print("FAILED: " + name, flush=True)
            traceback.print_exc(file=sys.stdout)
    print(f"{len(CHECKS) - failed} passed, {failed} failed")
    sys.exit(failed > 0)


main()
