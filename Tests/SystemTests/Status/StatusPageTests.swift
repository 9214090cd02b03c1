import TestSupport
import Testing

/// The status page in a browser, at desktop and phone sizes, in light and dark colours.
@Suite("Status page in a browser")
struct StatusPageTests {
    @Test("A demo with traffic is displayed in every size and scheme, without console messages of the browser")
    func demo() async throws {
        try await RunningDemo.running { demo in
            let curl = try Curl()
            for _ in 0..<20 { _ = try await curl("\(demo.clear)/episodes") }
            for _ in 0..<3 { _ = try await curl("\(demo.clear)/videos/1") }
            let looks = try await Self.looks(at: demo.admin, waitingFor: "episodes")
            for (name, look) in looks {
                #expect(look.title == "Serving traffic · Cloakroom", "\(name)")
                for fact in [
                    "Serving traffic", "OK: no alerts.", "episodes", "video", "api", "Up", "localhost", "memory",
                    "None since start",
                ] {
                    #expect(look.text.contains(fact), "\(name): \(fact)")
                }
                #expect(!look.text.contains("Problem"), "\(name)")
            }
        }
    }

    @Test("A gateway with problems names them, in every size and scheme")
    func trouble() async throws {
        try await AdminWithFailures.running { address in
            let looks = try await Self.looks(at: address, waitingFor: "Not ready")
            for (name, look) in looks {
                #expect(look.title == "Not ready · Cloakroom", "\(name)")
                for fact in [
                    "the valkey store cannot be used", "The upstream “videos” is unreachable.", "Backing off",
                    "Next attempt due", "connection refused", "<script>alert(1)</script>", "Expired", "In 5 days",
                    "Failed identity calls", "signIn.accessToken", "expected access_token; found a_member",
                    "unknown upstream “vidoes”", ">\u{202F}10\u{202F}s", "Rejected", "Down", "1\u{202F}284",
                ] {
                    #expect(look.text.contains(fact), "\(name): \(fact)")
                }
            }
        }
    }

    @Test("On a phone no table scrolls sideways, on the status page and on the pages of a route and a target")
    func phone() async throws {
        try await AdminWithFailures.running { address in
            let pages = [
                "/", "/?routes-sort=p99&routes-show=failing&targets-show=unused&targets-sort=name&refresh=60",
                "/route?name=video", "/route?name=%28unmatched%29", Self.target,
            ]
            for page in pages {
                let run = try await BrowserSession().run([
                    .size(width: 390, height: 844), .open(address + page), .waitFor("#trends"), .evaluate(Self.flaws),
                    .evaluate(Self.scrolled), .axe, .snapshot("page"),
                ])
                #expect(run.values == ["", "", ""], "\(page)")
                #expect(run.console.isEmpty, "\(page)")
                let look = try #require(run.snapshots["page"])
                #expect(look.scrollWidth <= look.clientWidth, "\(page)")
                #expect(look.beyondRightEdge == [], "\(page)")
                #expect(look.scripts == 0, "\(page)")
                #expect(look.lowestContrast >= 4.5, "\(page): \(look.lowestContrastText)")
            }
        }
    }

    @Test("Links sort, filter and open the page of a route and a target, and lead back")
    func links() async throws {
        try await AdminWithFailures.running { address in
            let first = """
                const row = document.querySelector('#routes tbody th');
                return row.textContent + ' ' + document.querySelectorAll('#routes tbody tr').length;
                """
            let failing = "#routes .filters a:nth-child(3)"
            let run = try await BrowserSession().run([
                .size(width: 1280, height: 900), .open(address + "/"), .waitFor("#routes"), .evaluate(first),
                .click("#routes thead th:nth-child(6) a"), .waitFor("#routes th[aria-sort=descending]:nth-child(6)"),
                .evaluate(first), .click(failing),
                .waitFor(failing + "[aria-current]"), .evaluate(first), .click("#routes tbody th a"),
                .waitForText("Route video"), .snapshot("route"),
                .click(".brand a"), .waitForText("Not ready"), .click("#upstreams tbody th a"),
                .waitForText("Upstream api."), .snapshot("target"),
            ])
            #expect(run.values == ["episodes 5", "video 5", "video 1"])
            #expect(run.snapshots["route"]?.title == "Route video · Cloakroom")
            #expect(run.snapshots["target"]?.title == "Target http://10.0.4.17:9000 · Cloakroom")
        }
    }

    private static let target = "/target?upstream=api&address=http%3A%2F%2F10.0.4.18%3A9000"

    /// The elements that scroll sideways, one a line.
    private static let scrolled = """
        return [...document.querySelectorAll('main *')]
            .filter(element => element.scrollWidth > element.clientWidth && element.clientWidth > 1
                && getComputedStyle(element).overflowX !== 'visible')
            .map(element => element.outerHTML.slice(0, 80)).join('\\n');
        """

    @Test("Every table wider than the screen can be scrolled by keyboard, and has a caption and header cells")
    func accessibility() async throws {
        try await AdminWithFailures.running { address in
            let run = try await BrowserSession().run([
                .size(width: 360, height: 780), .open(address + "/"), .waitForText("Not ready"),
                .evaluate(Self.flaws), .snapshot("page"),
            ])
            #expect(run.values == [""])
            #expect(run.snapshots["page"].map { $0.scrollWidth <= $0.clientWidth } == true)
        }
    }

    /// The structural mistakes of the page, one a line.
    private static let flaws = """
        const flaws = [];
        const each = (selector, isRight, flaw) => document.querySelectorAll(selector).forEach(element => {
            if (!isRight(element)) flaws.push(flaw + ': ' + element.outerHTML.slice(0, 80));
        });
        each('table', table => table.caption && table.caption.textContent.trim(), 'no caption');
        each('thead th', cell => cell.scope === 'col', 'no scope');
        each('tbody th', cell => cell.scope === 'row', 'no scope');
        each('tbody tr', row => row.cells.length === row.closest('table').tHead.rows[0].cells.length, 'ragged');
        each('.scroll', box => box.scrollWidth <= box.clientWidth || box.tabIndex === 0, 'not to be scrolled');
        each('.scroll', box => document.getElementById(box.getAttribute('aria-labelledby')), 'no label');
        each('a[href^="#"]', link => document.querySelector(link.getAttribute('href')), 'leads nowhere');
        each('section', section => section.querySelector('h2'), 'no heading');
        const ids = [...document.querySelectorAll('[id]')].map(element => element.id);
        if (new Set(ids).size !== ids.length) flaws.push('an id twice');
        if (document.querySelectorAll('h1').length !== 1) flaws.push('not one h1');
        if (document.querySelectorAll('main').length !== 1) flaws.push('not one main');
        if (document.documentElement.lang !== 'en') flaws.push('no language');
        return flaws.join('\\n');
        """

    /// Captures the page in every size and scheme, and checks the common properties.
    private static func looks(at address: String, waitingFor text: String) async throws -> [String: BrowserRun.Snapshot]
    {
        let sizes = [(width: 1280, height: 900), (width: 390, height: 844)]
        var steps: [BrowserStep] = []
        for size in sizes {
            for scheme in BrowserStep.Scheme.allCases {
                steps += [
                    .size(width: size.width, height: size.height), .scheme(scheme), .open(address + "/"),
                    .waitForText(text), .snapshot("\(size.width) \(scheme)"),
                ]
            }
        }
        let run = try await BrowserSession().run(steps)
        #expect(run.console.isEmpty)
        #expect(run.snapshots.count == 4)
        for (name, look) in run.snapshots {
            #expect(look.scrollWidth <= look.clientWidth, "\(name)")
            #expect(look.beyondRightEdge == [], "\(name)")
            #expect(look.scripts == 0, "\(name)")
            #expect(look.lowestContrast >= 4.5, "\(name): \(look.lowestContrastText)")
            #expect(look.cookies == [], "\(name)")
        }
        for size in sizes {
            let backgrounds = BrowserStep.Scheme.allCases.map { run.snapshots["\(size.width) \($0)"]?.background }
            #expect(Set(backgrounds).count == 2)
        }
        return run.snapshots
    }
}
