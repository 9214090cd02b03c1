import CloakroomConfig
import CloakroomCore
import Foundation
import TestSupport
import Testing

/// The JSON of the reports. Scripts depend on it: a test that fails because of a new member is extended; another one
/// means that a script breaks.
@Suite struct ReportDocumentTests {
    /// The members of an object with their values, which are comparable as JSON with sorted members.
    private func members(_ report: CommandReport) throws -> [String: String] {
        let object = try require(JSONSerialization.jsonObject(with: Data(report.json.utf8)) as? [String: Any])
        return try object.mapValues { value in
            let data = try JSONSerialization.data(
                withJSONObject: value, options: [.fragmentsAllowed, .sortedKeys, .withoutEscapingSlashes])
            return String(decoding: data, as: UTF8.self)
        }
    }

    /// Removes the path of the folder from a document.
    private func report(
        _ yaml: String = ConfigFixture.good, _ command: (ConfigSources) -> CommandReport
    ) throws -> (members: [String: String], exitCode: Int32) {
        let fixture = try ConfigFixture(yaml)
        let report = fixture.report(command)
        expect(report.json.hasSuffix("\n}\n"))
        let members = try members(report).mapValues { $0.replacing(fixture.path + "/", with: "") }
        return (members, report.exitCode)
    }

    @Test("check-config: the document of a valid configuration")
    func valid() throws {
        let report = try report { CommandReport.checkConfig($0) }
        expect(
            report.members,
            equals: [
                "configuration": #""cloakroom.yaml""#, "valid": "true", "offline": "false", "problems": "[]",
                "warnings": "0", "routes": "2", "upstreams": "2",
            ])
        expect(report.exitCode, equals: 0)
    }

    @Test("check-config: a finding of the further checks is a problem, and a warning with --strict is the exit code 1")
    func warned() throws {
        let report = try report { sources in
            CommandReport.checkConfig(sources, isStrict: true) { _ in
                [ConfigFinding(key: ["eventLoops"], message: "too few", suggestion: "write 2", isWarning: true)]
            }
        }
        expect(report.exitCode, equals: 1)
        expect(report.members["valid"], equals: "true")
        expect(report.members["warnings"], equals: "1")
        expect(
            report.members["problems"],
            equals:
                #"[{"key":"eventLoops","message":"too few","severity":"warning","source":"cloakroom.yaml","suggestion":"write 2"}]"#
        )
    }

    @Test(
        "Every command describes an invalid configuration by the same document",
        arguments: ["check-config", "print-config", "explain", "routes", "routes --diff"])
    func invalid(_ command: String) throws {
        let yaml = ConfigFixture.good.replacing("idleTimeout: 15m", with: "idleTimeout: soon")
        let report = try report(yaml) { sources in
            switch command {
            case "check-config": CommandReport.checkConfig(sources)
            case "print-config": CommandReport.printConfig(sources)
            case "explain": CommandReport.explain(sources, method: "GET", target: "/")
            case "routes": CommandReport.routes(sources)
            default: CommandReport.routes(sources, comparedWith: sources)
            }
        }
        expect(report.exitCode, equals: 1)
        expect(
            Set(report.members.keys), equals: ["configuration", "valid", "offline", "problems", "warnings"])
        expect(report.members["valid"], equals: "false")
        let problem = try require(report.members["problems"])
        expect(
            problem.hasPrefix(#"[{"column":16,"key":"session.idleTimeout","line":11,"message":"must be "#), "\(problem)"
        )
        expect(problem.contains(#""severity":"error","source":"cloakroom.yaml","suggestion":""#), "\(problem)")
    }

    @Test("print-config: each value with its key and origin; secrets are redacted")
    func values() throws {
        let report = try report { CommandReport.printConfig($0) }
        expect(Set(report.members.keys), equals: ["configuration", "valid", "values"])
        let values = try require(report.members["values"])
        expect(values.contains(#"{"key":"session.idleTimeout","origin":"cloakroom.yaml:11:16","value":"15m"}"#))
        expect(
            values.contains(
                #"{"key":"upstreams.api.apiToken.value","origin":"cloakroom.yaml:6:24","value":"<redacted>"}"#))
    }

    @Test("routes: routes and local endpoints")
    func routes() throws {
        let report = try report { CommandReport.routes($0) }
        expect(
            report.members,
            equals: [
                "configuration": #""cloakroom.yaml""#, "valid": "true",
                "routes":
                    #"[{"injects":["apiToken"],"methods":["GET"],"name":"episodes","path":"/episodes","#
                    + #""requiresAuthorization":false,"target":"api","upstream":"api"},"#
                    + #"{"injects":["apiToken","bearer"],"methods":["GET"],"name":"video","path":"/videos/{id}","#
                    + #""requiresAuthorization":true,"target":"api","upstream":"api"}]"#,
                "local":
                    #"[{"methods":["POST","GET","DELETE"],"path":"/auth"},"#
                    + #"{"methods":["GET","DELETE"],"path":"/auth/sessions"},"#
                    + #"{"methods":["DELETE"],"path":"/auth/sessions/{id}"}]"#,
            ])
    }

    @Test("A route in one line: methods, hosts, path and target, which may be a redirect or files")
    func summaries() throws {
        let more = """
              - { name: old, hosts: [a.test, b.test], path: /old, redirect: { to: "https://c.test/new" } }

            """
        let routes = try ConfigFixture(ConfigFixture.good + more).load().configuration.routeSummaries
        expect(routes.map(\.name), equals: ["episodes", "video", "old"])
        expect(
            routes.map(\.serves),
            equals: [
                "GET /episodes → api", "GET /videos/{id} → api", "GET a.test, b.test/old → https://c.test/new",
            ])
    }

    @Test("routes --diff: the changes, and which of them expose a path; none is an empty list")
    func changes() throws {
        let old = try ConfigFixture()
        let new = ConfigFixture.good.replacing("requiresAuthorization: true", with: "requiresAuthorization: false")
        let opened = try report(new.replacing(", bearer", with: "")) { sources in
            old.report { CommandReport.routes(sources, comparedWith: $0) }
        }
        expect(opened.exitCode, equals: 3)
        expect(Set(opened.members.keys), equals: ["configuration", "comparedWith", "valid", "changes"])
        expect(
            opened.members["changes"],
            equals:
                #"[{"explanation":"video","isExposure":true,"kind":"becamePublic","methods":["GET"],"path":"/videos/{id}"}]"#
        )
        let same = try report { sources in old.report { CommandReport.routes(sources, comparedWith: $0) } }
        expect(same.members["changes"], equals: "[]")
        expect(same.exitCode, equals: 0)
    }

    @Test(
        "explain: outcome and status",
        arguments: [
            ("GET", "/nothing", "rejected", "404"), ("POST", "/episodes", "rejected", "405"),
            ("GET", "/a/../b", "rejected", "400"), ("G T", "/", "rejected", "400"),
            ("GET", "*", "rejected", "400"), ("OPTIONS", "*", "local", nil), ("POST", "/auth", "local", nil),
            ("GET", "/\(String(repeating: "a", count: 9_000))", "rejected", "414"),
        ])
    func outcome(_ method: String, _ target: String, _ outcome: String, _ status: String?) throws {
        let members = try report { CommandReport.explain($0, method: method, target: target) }.members
        expect(members["outcome"], equals: "\"\(outcome)\"")
        expect(members["status"], equals: status)
        expect(members["method"], equals: "\"\(method)\"")
        expect(members["details"]?.hasPrefix(#"[{"name":"response","text":""#), equals: true)
        expect(members["route"] == nil && members["upstream"] == nil && members["requiresAuthorization"] == nil)
    }

    @Test("explain: a forwarded request names route and upstream, and contains the rows of the text")
    func forwarded() throws {
        let report = try report { CommandReport.explain($0, method: "GET", target: "/videos/1") }
        var members = report.members
        let details = members.removeValue(forKey: "details") ?? ""
        expect(
            members,
            equals: [
                "configuration": #""cloakroom.yaml""#, "valid": "true", "method": #""GET""#,
                "target": #""/videos/1""#, "outcome": #""forwarded""#, "route": #""video""#, "upstream": #""api""#,
                "requiresAuthorization": "true",
            ])
        expect(details.hasPrefix(#"[{"name":"route","text":"video (GET /videos/{id})"},"#), "\(details)")
        expect(
            details.contains(#"{"name":"injects","text":"X-API-TOKEN: <redacted>, Authorization: Bearer <redacted>"}"#))
    }
}

/// A configuration on standard input, and colors.
@Suite struct ReportSourceTests {
    private func sources(_ yaml: String) -> ConfigSources {
        var sources = ConfigSources(file: nil)
        sources.standardInput = Array(yaml.utf8)
        return sources
    }

    @Test("A configuration from standard input is valid like one from a file, and is named in summary and origins")
    func standardInput() throws {
        let check = CommandReport.checkConfig(sources(ConfigFixture.good))
        expect(check.text, equals: "standard input: ok (2 routes, 2 upstreams)\n")
        expect(CommandReport.printConfig(sources(ConfigFixture.good)).text.contains(" standard input:11:16\n"))
        try expect(empty: loadConfig(sources(ConfigFixture.good)).files)
    }

    @Test("Errors of standard input have its name and the line")
    func mistakes() {
        let value = CommandReport.checkConfig(sources(ConfigFixture.good.replacing("15m", with: "soon")))
        expect(value.text.hasPrefix("standard input:11:16: session.idleTimeout: must be "), "\(value.text)")
        let syntax = CommandReport.checkConfig(sources("a: ["))
        expect(syntax.text.hasPrefix("standard input:"), "\(syntax.text)")
        var binary = ConfigSources(file: nil)
        binary.standardInput = [0xff, 0xfe, 0x00]
        expect(
            CommandReport.checkConfig(binary).text,
            equals: "standard input: the file must be in UTF-8 (save it as UTF-8)\n")
        let empty = CommandReport.checkConfig(sources(""))
        expect(empty.exitCode, equals: 1)
        expect(empty.text.contains("standard input: listeners: required key missing"), "\(empty.text)")
    }

    @Test("Relative paths of a configuration on standard input start at the working directory")
    func paths() throws {
        let yaml = ConfigFixture.good.replacing("value: demo", with: "valueFile: no-folder/token")
        let text = CommandReport.checkConfig(sources(yaml)).text
        expect(text.contains("upstreams.api.apiToken.valueFile: must be an existing file"), "\(text)")
    }

    @Test("In color, location and severity of each problem are colored, the summary is not")
    func colors() throws {
        let report = try ConfigFixture().report { sources in
            CommandReport.checkConfig(sources, isStrict: false) { _ in
                [ConfigFinding(key: ["eventLoops"], message: "too few", suggestion: "write 2", isWarning: true)]
            }
        }
        let lines = report.text(inColor: true).split(separator: "\n")
        expect(lines.count, equals: 2)
        expect(lines[0].contains(": warning:\u{1b}[0m eventLoops: too few (write 2)"), "\(lines[0])")
        expect(lines[0].hasPrefix("\u{1b}[1;33m"))
        expect(!lines[1].contains("\u{1b}"))
        let bad = CommandReport.checkConfig(sources("x: y"))
        expect(bad.text(inColor: true).contains("\u{1b}[1;31mstandard input:1:1:\u{1b}[0m x: unknown key"))
        expect(!bad.text.contains("\u{1b}"))
        let plain = bad.text(inColor: true).replacing(/\u{1b}\[[0-9;]*m/, with: "")
        expect(plain, equals: bad.text)
    }
}
