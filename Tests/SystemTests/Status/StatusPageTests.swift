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
                expect(look.title, equals: "Serving traffic · Cloakroom", "\(name)")
                for fact in [
                    "Serving traffic", "OK: no alerts.", "episodes", "video", "api", "Up", "localhost", "memory",
                    "None since start", "GET /videos/{id} → api",
                ] {
                    expect(look.text.contains(fact), "\(name): \(fact)")
                }
                expect(!look.text.contains("Problem"), "\(name)")
            }
        }
    }

    @Test("A gateway with problems names them, in every size and scheme")
    func trouble() async throws {
        try await AdminWithFailures.running { address in
            let looks = try await Self.looks(at: address, waitingFor: "Not ready")
            for (name, look) in looks {
                expect(look.title, equals: "Not ready · Cloakroom", "\(name)")
                for fact in [
                    "the valkey store cannot be used", "The upstream “videos” is unreachable: tls", "Backing off",
                    "Next attempt due", "connection refused", "<script>alert(1)</script>", "Expired", "In 5 days",
                    "Failed identity calls", "signIn.accessToken", "expected access_token; found a_member",
                    "unknown upstream “vidoes”", ">\u{202F}10\u{202F}s", "Rejected", "Down", "1\u{202F}284",
                    "Users cannot sign in at the provider “company”", "<script>alert(2)</script>", "1 unusable",
                    "company: it signs with HS256 <script>alert(3)</script>", "1\u{202F}d 1\u{202F}h ago",
                    "the metadata names another issuer; copy issuer",
                    "<script>alert(4)</script>\"\u{301} onload='x' & \u{FFFD}\u{FFFD}{{x}}",
                ] {
                    expect(look.text.contains(fact), "\(name): \(fact)")
                }
            }
        }
    }

    @Test("On a phone no table scrolls sideways, on the status page and on the pages of a route and a target")
    func phone() async throws {
        try await AdminWithFailures.running { address in
            let pages = [
                "/", "/?routes-sort=p99&routes-show=With+failures&targets-show=Not+in+use&targets-sort=-Target",
                "/?route=video", "/?route=%28unmatched%29", "/?route=unknown",
                "/?upstream=api&target=http%3A%2F%2F10.0.4.18%3A9000",
            ]
            let run = try await BrowserSession().run(
                [.size(width: 390, height: 844)]
                    + pages.flatMap { page in
                        [
                            .open(address + page), .waitFor("#pause"), .evaluate(Self.flaws), .evaluate(Self.scrolled),
                            .axe, .snapshot(page),
                        ]
                    })
            expect(run.values, equals: Array(repeating: "", count: 3 * pages.count))
            expect(empty: run.console)
            for page in pages {
                let look = try require(run.snapshots[page])
                #expect(look.scrollWidth <= look.clientWidth, "\(page)")
                expect(look.beyondRightEdge, equals: [], "\(page)")
                expect(look.scripts, equals: 2, "\(page): only those of the page")
                #expect(look.lowestContrast >= 4.5, "\(page): \(look.lowestContrastText)")
            }
        }
    }

    @Test("A click sorts, filters, and opens the page of a route or target; the address keeps the choices")
    func clicks() async throws {
        try await AdminWithFailures.running { address in
            let first = """
                const row = document.querySelector('#routes tbody th a');
                return row.textContent + ' ' + document.querySelectorAll('#routes tbody tr').length;
                """
            let p99 = "#routes thead th:nth-child(6) button"
            let failing = "#routes .filters button:nth-child(3)"
            let run = try await BrowserSession().run([
                .size(width: 1280, height: 900), .open(address + "/"), .waitFor("#routes"), .evaluate(first),
                .click(p99), .waitFor("#routes th[aria-sort=descending]:nth-child(6)"), .evaluate(first),
                .click(p99), .waitFor("#routes th[aria-sort=ascending]:nth-child(6)"), .evaluate(first),
                .click(failing), .waitFor(failing + "[aria-pressed=true]"), .evaluate(first),
                .reload, .waitFor(failing + "[aria-pressed=true]"), .evaluate("return location.search"),
                .click("#routes tbody th a"), .waitForText("Route video"), .snapshot("route"),
                .click(".brand a"), .waitForText("Not ready"), .click("#upstreams tbody th a"),
                .waitForText("Upstream api."), .snapshot("target"),
            ])
            expect(
                run.values,
                equals: [
                    "episodes 6", "video 6", "(unmatched) 6", "video 1", "?routes-sort=-p99&routes-show=With+failures",
                ])
            expect(run.snapshots["route"]?.title, equals: "Route video · Cloakroom")
            expect(run.snapshots["target"]?.title, equals: "Target http://10.0.4.17:9000 · Cloakroom")
        }
    }

    @Test("A filter or column of the address that no table has changes nothing, also if every object inherits its name")
    func unknownChoices() async throws {
        try await AdminWithFailures.running { address in
            let names = ["With+shadows", "__proto__", "constructor", "hasOwnProperty", "toString"]
            let run = try await BrowserSession().run(
                names.flatMap { name in
                    [
                        .open(address + "/?routes-show=\(name)&targets-show=\(name)&routes-sort=\(name)"),
                        .waitFor("#routes"),
                        .evaluate("return String(document.querySelectorAll('#routes tbody tr').length)"),
                        .evaluate("return document.querySelector('#routes .filters [aria-pressed=true]').textContent"),
                    ]
                })
            expect(run.values, equals: names.flatMap { _ in ["6", "All"] })
            expect(empty: run.console)
        }
    }

    @Test("Old figures are marked until the next ones arrive")
    func old() async throws {
        try await AdminWithFailures.running { address in
            let run = try await BrowserSession().run([
                .open(address + "/"), .waitForText("Not ready"),
                .evaluate("window.own = fetch; fetch = async () => { throw new Error('<b>offline') }; return ''"),
                .waitFor("#old"), .axe, .snapshot("old"),
                .evaluate("fetch = async () => new Response('', { status: 401 }); return ''"),
                .waitForText("status 401"), .evaluate("fetch = own; return document.body.className"),
                .waitUntilGone("#old"), .snapshot("new"), .evaluate("return document.body.className"),
            ])
            let look = try require(run.snapshots["old"])
            expect(look.title, equals: "No current figures · Cloakroom")
            expect(look.text.contains("status.json cannot be read (<b>offline). The figures are of 20"))
            expect(look.text.contains("Not ready"), "the old figures are still shown")
            #expect(look.lowestContrast >= 4.5, "\(look.lowestContrastText)")
            expect(run.snapshots["new"]?.title, equals: "Not ready · Cloakroom")
            expect(run.values, equals: ["", "", "", "old", ""])
        }
    }

    @Test("An update keeps the focus, and a paused page is not updated")
    func updates() async throws {
        try await AdminWithFailures.running { address in
            let focused = """
                const button = document.querySelector('#routes thead button');
                button.focus();
                const before = last;
                return refresh().then(() => [last !== before, document.activeElement === button].join());
                """
            let requests = """
                let count = 0;
                fetch = async () => { count += 1; throw new Error('offline') };
                return run().then(() => String(count));
                """
            let run = try await BrowserSession().run([
                .open(address + "/"), .waitFor("#routes"), .evaluate(focused), .click("#pause"),
                .waitForText("Continue"), .evaluate(requests), .click("#pause"), .waitFor("#old"),
            ])
            expect(run.values, equals: ["true,true", "0"])
        }
    }

    @Test("A page of five hundred routes is complete, and is drawn quickly")
    func large() async throws {
        try await AdminWithFailures.running { address in
            let many = """
                last.routes = Array.from({ length: 500 }, (_, index) => ({ ...last.routes[0], name: `route-${index}` }));
                const start = performance.now();
                draw();
                draw();
                return document.querySelectorAll('#routes tbody tr').length + ' ' + (performance.now() - start < 3000);
                """
            let run = try await BrowserSession().run([.open(address + "/"), .waitFor("#routes"), .evaluate(many)])
            expect(run.values, equals: ["500 true"])
        }
    }

    @Test("With an admin token the page, its scripts and its figures are read with the password of the browser")
    func token() async throws {
        let token = "canary-admin-token-0123456789abcdef"
        try await GatewayProcess.running(
            GatewayYAML(upstream: "http://127.0.0.1:9"), set: ["admin.token=\(token)", "admin.tokenScope=everything"]
        ) { gateway in
            let address = gateway.admin.replacing("http://", with: "http://operator:\(token)@")
            let run = try await BrowserSession().run([
                .open(address + "/"), .waitForText("Serving traffic"), .snapshot("page"),
            ])
            expect(run.snapshots["page"]?.text.contains("No sign-ins yet."), equals: true)
            expect(empty: run.console)
        }
    }

    @Test("Numbers are rounded to significant digits, and times have their two largest units")
    func numbers() async throws {
        let thin = "\u{202F}"
        let expected = [
            "whole(999)": "999", "whole(1234567)": "1\(thin)234\(thin)567", "count(1, 'day')": "1 day",
            "count(0, 'day')": "0 days", "count(2, 'refresh', 'refreshes')": "2 refreshes",
            "rate(0)": "0", "rate(0.001)": "< 0.01", "rate(0.25)": "0.25", "rate(3.44)": "3.4", "rate(120.4)": "120",
            "rate(12345)": "12\(thin)345",
            // Only exactly 0 and 1 are 0 % and 100 %.
            "share(0)": "0\(thin)%", "share(0.0001)": "<\(thin)0.1\(thin)%", "share(0.025)": "2.5\(thin)%",
            "share(0.33)": "33\(thin)%", "share(0.9999)": "99.9\(thin)%", "share(1)": "100\(thin)%",
            "milliseconds(0.42)": "0.4\(thin)ms", "milliseconds(37.5)": "38\(thin)ms",
            "milliseconds(1250)": "1.25\(thin)s", "milliseconds(10000)": "10\(thin)s",
            "duration(-3)": "0\(thin)s", "duration(59)": "59\(thin)s", "duration(60)": "1\(thin)min",
            "duration(125)": "2\(thin)min 5\(thin)s", "duration(90061)": "1\(thin)d 1\(thin)h",
            "time('2026-11-21T11:21:16Z')": "2026-11-21 11:21:16 UTC", "words('refresh_rejected')": "refresh rejected",
        ]
        try await shows(expected)
    }

    @Test("A line is drawn from left to right at the end of its period, and a missing value interrupts it")
    func lines() async throws {
        func path(_ values: String) -> String {
            "sparkline('Requests', '15 min', \(values), 4, rate).querySelector('path').getAttribute('d')"
        }
        try await shows([
            path("[0, 1, 2, 4]"): "M0 100l0 0L200 75L400 50L600 0",
            path("[2, 2]"): "M400 0l0 0L600 0",
            path("[1, null, 1, 1]"): "M0 0l0 0M400 0l0 0L600 0",
            path("[0, 0, 0, 0]"): "M0 100l0 0L200 100L400 100L600 100",
            path("[1, 1, 1, 1, 1, 1]"): "M0 0l0 0L200 0L400 0L600 0",
            "sparkline('', '24 h', [null], 4, rate).textContent": "24 h: no values yet",
            "sparkline('Requests', '15 min', [0, 1, 2, 4], 4, rate).querySelector('svg').getAttribute('aria-label')":
                "Requests, last 15 min: lowest 0, highest 4.0",
            // A percentile above the highest bucket is marked as a lower bound.
            """
            (() => {
                const values = p99 => ({ interval_seconds: 10, per_second: [1], error_share: [0], p50_ms: [8], p99_ms: [p99] });
                const chart = trends({ quarter_hour: { ...values(10000), bound_ms: 10000 }, day: values(20) });
                return [...chart.querySelectorAll('b')].map(latest => latest.textContent).join();
            })()
            """: "1.0,0\u{202F}%,8.0\u{202F}ms,>\u{202F}10\u{202F}s",
        ])
    }

    @Test("The headline is that of the document, and a percentile of too few requests is shown with the requests")
    func headline() async throws {
        func page(_ change: String, _ value: String) -> String {
            "(() => { const status = structuredClone(last); \(change); return \(value) })()"
        }
        let ready = "status.state = 'ready'; status.headline = 'The upstream “api” is unreachable'"
        let few = "{ p95_ms: 80, too_few: ['p95_ms'], samples_ms: [12, 14, 80] }"
        let thin = "\u{202F}"
        try await shows([
            page(ready, "[gatewayPage(status).state, gatewayPage(status).level].join()"):
                "The upstream “api” is unreachable,bad",
            page("status.traffic.latency = \(few)", "Object.values(gatewayPage(status).figures[2]).join('|')"):
                "95th percentile|≤\(thin)80\(thin)ms|3 requests: 12\(thin)ms, 14\(thin)ms, 80\(thin)ms",
        ])
    }

    /// Evaluates expressions with the functions of the page.
    private func shows(_ expected: [String: String]) async throws {
        try await AdminWithFailures.running { address in
            let expressions = expected.keys.sorted()
            let run = try await BrowserSession().run(
                [.open(address + "/"), .waitFor("#pause")] + expressions.map { .evaluate("return \($0);") })
            for (expression, value) in zip(expressions, run.values) {
                expect(value, equals: expected[expression], "\(expression)")
            }
            expect(run.values.count, equals: expected.count)
        }
    }

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
            expect(run.values, equals: [""])
            expect(run.snapshots["page"].map { $0.scrollWidth <= $0.clientWidth }, equals: true)
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
        expect(empty: run.console)
        expect(run.snapshots.count, equals: 4)
        for (name, look) in run.snapshots {
            #expect(look.scrollWidth <= look.clientWidth, "\(name)")
            expect(look.beyondRightEdge, equals: [], "\(name)")
            expect(look.scripts, equals: 2, "\(name): only those of the page")
            #expect(look.lowestContrast >= 4.5, "\(name): \(look.lowestContrastText)")
            expect(look.cookies, equals: [], "\(name)")
        }
        for size in sizes {
            let backgrounds = BrowserStep.Scheme.allCases.map { run.snapshots["\(size.width) \($0)"]?.background }
            expect(Set(backgrounds).count, equals: 2)
        }
        return run.snapshots
    }
}
