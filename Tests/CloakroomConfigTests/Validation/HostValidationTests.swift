import CloakroomCore
import Foundation
import TestSupport
import Testing

@testable import CloakroomConfig

@Suite("Hosts of routes and listeners in the configuration")
struct HostValidationTests {
    /// The valid configuration with keys of the listener, of the first and of the second route.
    private static func yaml(listener: String = "", _ first: String = "", _ second: String = "") -> String {
        func lines(_ keys: String) -> String { keys.isEmpty ? "" : "    \(keys)\n" }
        return ConfigFixture.good
            .replacing("127.0.0.1:0\n", with: "127.0.0.1:0\n" + lines(listener))
            .replacing("name: episodes\n", with: "name: episodes\n" + lines(first))
            .replacing("name: video\n", with: "name: video\n" + lines(second))
    }

    private static func warnings(_ yaml: String) throws -> [String] {
        let fixture = try ConfigFixture(yaml)
        return try fixture.load().warnings.map { $0.description.replacing(fixture.path + "/", with: "") }
    }

    @Test("Hosts are folded, and addresses are hosts")
    func folded() throws {
        let hosts = "hosts: [Shop.Example.COM., \"*.Example.com\", 10.0.0.1, \"[::1]\", localhost, xn--bcher-kva.de]"
        let configuration = try ConfigFixture(Self.yaml(listener: hosts, hosts)).load().configuration
        let expected = ["shop.example.com", "*.example.com", "10.0.0.1", "[::1]", "localhost", "xn--bcher-kva.de"]
        expect(configuration.routes.map(\.hosts), equals: [expected, []])
        expect(configuration.listeners.map(\.hosts), equals: [expected])
    }

    @Test(
        "A wrong host is one line with a remedy",
        arguments: [
            ("Bücher.de", "must be an A-label, not \"Bücher.de\" (write the host as browsers send it: xn--…)"),
            ("*.*.x", "must begin with one *., not \"*.*.x\" (write *.x)"),
            ("a.*.x", "must begin with one *., not \"a.*.x\" (write *.x)"),
            ("*", "must begin with one *., not \"*\" (leave hosts out to serve every host)"),
            ("x:8443", "must be without a port, not \"x:8443\" (write x)"),
            ("[::1]:80", "must be without a port, not \"[::1]:80\" (write [::1])"),
            ("https://x", "must be a host, not \"https://x\" (write x)"),
            ("x/y", "must be a host, not \"x/y\" (write x)"),
        ]
            + [
                "::1", "a..b", ".a", "*.", "*.10.0.0.1", "10.0.0", "10.0.0.01", "[1.2.3.4]", "a b",
                "a~b",
                String(repeating: "a", count: 64) + ".x", "x,y@z", "a.x..",
            ].map { ($0, "must be a host, not \"\($0)\" (write one such as app.example.com)") })
    func wrong(host: String, message: String) throws {
        let fixture = try ConfigFixture(Self.yaml("hosts: [\"\(host)\"]"))
        expect(fixture.valueErrors(), equals: ["cloakroom.yaml:15:13: routes.0.hosts.0: " + message])
    }

    @Test("A host twice in a list is an error, also in another spelling")
    func duplicates() throws {
        let errors = try ConfigFixture(Self.yaml("hosts: [a.test, A.test.]")).valueErrors()
        expect(
            errors,
            equals: ["cloakroom.yaml:15:12: routes.0.hosts: must be a list without duplicates (keep one of them)"])
    }

    @Test("A host of a route that no listener lists is warned about, unless a listener serves every host")
    func neverServed() throws {
        let told = "cloakroom.yaml:16:13: warning: routes.0.hosts: b.test is never served: no listener lists it"
        let found = try Self.warnings(
            Self.yaml(listener: "hosts: [a.test, \"*.c.test\"]", "hosts: [b.test, x.c.test, a.test]"))
        expect(
            found.map { $0.contains("b.test is never served: no listener lists it (add it to hosts of a listener)") },
            equals: [true], "\(told)")
        try expect(Self.warnings(Self.yaml("hosts: [b.test]")), equals: [])
    }

    @Test("A public URL whose host no listener lists is warned about")
    func publicURL() throws {
        func warnings(_ listener: String) throws -> [String] {
            try Self.warnings(
                Self.yaml(listener: listener, "hosts: [a.test]") + "accounts: { publicURL: \"https://app.a.test\" }\n"
            ).filter { $0.contains("app.a.test is never served") }
        }
        try expect(warnings("hosts: [a.test]").map { $0.contains("accounts.publicURL: ") }, equals: [true])
        try expect(warnings("hosts: [a.test, \"*.a.test\"]") == [] && warnings("http2: false") == [])
    }

    /// Writes the files of the listeners' certificates.
    private static func withFiles(_ fixture: ConfigFixture) throws -> ConfigFixture {
        for name in ["a", "c"] { try fixture.write("-----BEGIN CERTIFICATE-----\n", to: name) }
        try fixture.write("-----BEGIN PRIVATE KEY-----\n", to: "b")
        return fixture
    }

    @Test("A host of a listener that requires client certificates is in no other list")
    func clientCertificates() throws {
        let tls = "tls: { certificateFile: a, keyFile: b, clientCertificates: { caFile: c } }"
        func errors(_ hosts: String, _ others: String) throws -> [String] {
            let yaml = ConfigFixture.good.replacing(
                "  - address: 127.0.0.1:0\n",
                with: "  - address: 127.0.0.1:1\n    \(tls)\n    hosts: [\(hosts)]\n  - address: 127.0.0.1:2\n"
                    + "    tls: { certificateFile: a, keyFile: b }\n    hosts: [\(others)]\n"
            ).replacing("{ secure: false }", with: "{}")
            return try Self.withFiles(ConfigFixture(yaml)).valueErrors().filter { $0.contains("hosts") }
        }
        let told =
            " conflicts with the listener on 127.0.0.1:1, which requires client certificates (keep it in one of the two)"
        let repeated = try errors("a.x.test", "b.test, a.x.test")
        expect(repeated.count == 1 && repeated[0].hasSuffix("a.x.test" + told), "\(repeated)")
        let covered = try errors("\"*.x.test\"", "a.x.test")
        expect(covered.count == 1 && covered[0].hasSuffix("a.x.test" + told), "\(covered)")
        try expect(errors("a.x.test", "\"*.x.test\""), equals: [])
    }

    @Test("A public route with the API token on clear text is warned about if every host reaches it")
    func rebinding() throws {
        let proxied = { (yaml: String) in
            yaml.replacing("127.0.0.1:0\n", with: "0.0.0.0:8080\n    behindTLSProxy: true\n")
                .replacing("{ secure: false }", with: "{}").replacing("value: demo", with: "value: 4f1c09d2a7")
        }
        let told = try Self.warnings(proxied(ConfigFixture.good)).filter { $0.contains("API token") }
        expect(told.map { $0.contains("routes.0.inject: pages of any site can use the API token") }, equals: [true])
        for yaml in [Self.yaml("hosts: [a.test]"), Self.yaml(listener: "hosts: [a.test]")] {
            try expect(Self.warnings(proxied(yaml)).filter { $0.contains("API token") }, equals: [])
        }
        let local = Self.yaml(listener: "development: true").replacing("127.0.0.1:0\n", with: "0.0.0.0:8080\n")
            .replacing("{ value: demo }", with: "{ value: Zk3vQ8wL1xN6tR9yB4mC7dF2 }")
        try expect(Self.warnings(local).filter { $0.contains("pages of any site") }, equals: [])
    }

    @Test("A public route that serves paths of a protected one at other hosts is warned about")
    func otherHosts() throws {
        let wide = { (hosts: String) in
            Self.yaml("", "hosts: [a.test]").replacing("path: /episodes\n", with: "path: /*\n    \(hosts)\n")
        }
        for hosts in ["hosts: []", "hosts: [b.test]", "hosts: [a.test, b.test]"] {
            let found = try Self.warnings(wide(hosts)).filter { $0.contains("of the same upstream") }
            expect(
                found.map {
                    $0.contains(
                        "/* serves paths of the stricter route \"video\" (requires authorization), /videos/{id}, at")
                }, equals: [true], "\(hosts)")
        }
        try expect(Self.warnings(wide("hosts: [a.test]")).filter { $0.contains("of the same upstream") }, equals: [])
    }

    @Test("A redirect to another host is a loop only if that host redirects back")
    func loops() throws {
        func errors(_ hosts: String, _ url: String, to target: String = "app.test") throws -> [String] {
            let yaml =
                ConfigFixture.good + """
                      - { name: w, path: /w/*, hosts: [\(hosts)], redirect: { to: "https://\(target)/w/*" } }
                    accounts: { publicURL: "\(url)" }

                    """
            return try ConfigFixture(yaml).valueErrors()
        }
        try expect(errors("www.app.test", "https://app.test"), equals: [])
        try expect(errors("www.app.test, app.test", "https://app.test").map { $0.contains("a loop") }, equals: [true])
        let wildcard = "\"*.app.test\""
        for (hosts, target) in [("app.test", "app.test"), ("app.test", "app.test:8443"), (wildcard, "x.app.test")] {
            try expect(errors(hosts, "https://x.test", to: target).map { $0.contains("a loop") }, equals: [true])
        }
        try expect(errors(wildcard, "https://x.test"), equals: [])
    }

    @Test("explain, routes and routes --diff have hosts")
    func reports() throws {
        let fixture = try ConfigFixture(
            Self.yaml(listener: "hosts: [a.test, \"*.b.test\"]", "hosts: [a.test]", "hosts: [\"*.b.test\"]"))
        func explain(_ host: String?, _ target: String = "/episodes") -> String {
            fixture.report { CommandReport.explain($0, method: "GET", target: target, host: host) }.text
        }
        expect(explain("A.test:1").contains("episodes (GET a.test /episodes)"))
        expect(explain("x.b.test").contains("404: no route serves /episodes"))
        expect(explain("x.b.test", "/videos/1").contains("video (GET *.b.test /videos/{id})"))
        expect(explain(nil).contains("421: no route serves it without a host"))
        let mixed = try ConfigFixture(Self.yaml("", "hosts: [\"*.b.test\"]"))
        let found = { (host: String?) in
            mixed.report { CommandReport.explain($0, method: "GET", target: "/videos/1", host: host) }.text
        }
        expect(found(nil).contains("404: no route serves /videos/1; route video serves it at *.b.test, see --host\n"))
        expect(found("c.test").contains("421: no listener has host c.test\n"))
        expect(explain(nil, "http://a.test/episodes").contains("episodes (GET"))
        expect(explain("c.test").contains("421: no route has host c.test"))
        expect(explain("a@b").contains("400: the target names no valid host and port"))
        let table = fixture.report { CommandReport.routes($0) }.text.split(separator: "\n").map {
            $0.split(separator: " ").last.map(String.init)
        }
        expect(table.prefix(3), equals: ["HOSTS", "a.test", "*.b.test"])
        let later = try ConfigFixture(Self.yaml("hosts: [a.test, c.test]", "hosts: [\"*.b.test\"]"))
        let report = later.changes(since: fixture)
        expect(report.rows == ["added public GET c.test /episodes episodes"] && report.exitCode == 3)
        let open = try ConfigFixture().changes(since: fixture)
        expect(open.text.contains("*,*.b.test /episodes") && open.exitCode == 3)
    }

    @Test("Where all listeners are for development, explain and routes --diff are about localhost")
    func development() throws {
        let old = Self.yaml(listener: "development: true")
        let isPublic = old.replacing("requiresAuthorization: true", with: "requiresAuthorization: false")
            .replacing("inject: [apiToken, bearer]", with: "inject: [apiToken]")
        let (before, after) = (try ConfigFixture(old), try ConfigFixture(isPublic))
        let report = after.changes(since: before)
        expect(report.rows == ["became public GET localhost /videos/{id} video"] && report.exitCode == 3)
        func explain(_ host: String?) -> String {
            before.report { CommandReport.explain($0, method: "GET", target: "/episodes", host: host) }.text
        }
        expect(explain(nil).contains("episodes (GET"))
        expect(explain("a.test").contains("421: no listener has host a.test"))
        let onLoopback = try ConfigFixture(Self.yaml("", "hosts: [b.test]"))
        for (host, text) in [
            ("a.test", "421: no listener has"), ("b.test", "episodes (GET"), ("[::1]", "episodes (GET"),
        ] {
            let report = onLoopback.report {
                CommandReport.explain($0, method: "GET", target: "/episodes", host: host)
            }
            expect(report.text.contains(text), "\(host)")
        }
    }

    @Test("A public route of a host that no longer requires client certificates became public")
    func lostCertificates() throws {
        func fixture(_ mode: String, _ others: String = "") throws -> ConfigFixture {
            let tls = "{ certificateFile: a, keyFile: b, clientCertificates: { caFile: c, mode: \(mode) } }"
            let hosts = "    hosts: [a.test]\n"
            let yaml = ConfigFixture.good.replacing(
                "  - address: 127.0.0.1:0\n",
                with: "  - address: 127.0.0.1:1\n    tls: \(tls)\n\(hosts)  - address: 127.0.0.1:2\n"
                    + "    tls: { certificateFile: a, keyFile: b }\n\(others)"
            ).replacing("{ secure: false }", with: "{}")
            return try Self.withFiles(ConfigFixture(yaml))
        }
        let (strict, open) = (try fixture("required"), try fixture("optional"))
        let lost = open.changes(since: strict)
        expect(
            lost.rows, equals: ["became public GET a.test /episodes episodes, no longer with client certificates only"])
        expect(lost.exitCode, equals: 3)
        expect(strict.changes(since: open).rows, equals: ["no change"])
        expect(strict.changes(since: strict).rows, equals: ["no change"])
    }
}
