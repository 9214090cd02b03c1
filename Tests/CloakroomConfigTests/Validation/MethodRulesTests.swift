import Foundation
import TestSupport
import Testing

@testable import CloakroomConfig

@Suite("Methods that are probably mistakes")
struct MethodRulesTests {
    @Test(
        "A method similar to a registered one is a warning",
        arguments: [
            ("GETT", "GET"), ("GTE", "GET"), ("PSOT", "POST"), ("DELET", "DELETE"), ("OPTION", "OPTIONS"),
            ("PATHC", "PATCH"), ("HAED", "HEAD"), ("PROPFND", "PROPFIND"), ("DLETEE", "DELETE"),
        ])
    func near(method: String, meant: String) {
        let warning = MethodRules.warning(about: method)
        expect(warning?.message, equals: "\"\(method)\" is not a registered method")
        expect(warning?.suggestion, equals: "did you mean \(meant)?")
    }

    @Test(
        "A registered method is no warning, nor is one that resembles none",
        arguments: [
            "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "QUERY", "PROPFIND", "MKCALENDAR", "PURGE",
            "LIST",
            "FETCH", "PUSH", "BREW", "SUBSCRIBE", "M-SEARCH", "BAN", "X",
        ])
    func legal(method: String) {
        expect(MethodRules.warning(about: method), equals: nil)
    }

    @Test("A word for all methods is a warning with a suggestion", arguments: ["ANY", "ALL"])
    func collective(method: String) {
        expect(MethodRules.warning(about: method)?.suggestion.contains("[GET, POST, PUT,"), equals: true)
    }

    @Test("The warning has the position of the list item or of the token call's method")
    func place() throws {
        let yaml = ConfigFixture.good.replacingOccurrences(of: "signIn: { path", with: "signIn: { method: PSOT, path")
            .replacingOccurrences(of: "[GET]\n    path: /videos", with: "[PUT, GETT]\n    path: /videos")
        let config = try ConfigFixture(yaml).load()
        expect(
            config.warnings.map { [$0.line.map(String.init), $0.column.map(String.init), $0.key, $0.suggestion] },
            equals: [
                ["7", "23", "upstreams.api.signIn.method", "did you mean POST?"],
                ["21", "20", "routes.1.methods.1", "did you mean GET?"],
            ])
        let flag = try ConfigFixture().load(overrides: [("routes.0.methods", "GET,PSOT")])
        expect(flag.warnings.map(\.source), equals: ["--set"])
    }

    @Test("An asterisk is an error with a suggestion", arguments: ["[\"*\"]", "[GET, \"*\"]"])
    func asterisk(methods: String) throws {
        let valueErrors = try ConfigFixture.valueErrors(replacing: "methods: [GET]", by: "methods: \(methods)")
        expect(valueErrors.count, equals: 1)
        let wanted =
            "must be a method, not * (list them, such as [GET, POST, PUT, PATCH, DELETE, OPTIONS])"
        expect(valueErrors.first?.hasPrefix("cloakroom.yaml:15:"), equals: true)
        expect(valueErrors.first?.hasSuffix(wanted), equals: true, "\(valueErrors)")
    }

    @Test("A colon at the start of a segment is an error with a suggestion")
    func colon() throws {
        let valueErrors = try ConfigFixture.valueErrors(replacing: "path: /videos/{id}", by: "path: /videos/:id")
        expect(
            valueErrors,
            equals: [
                "cloakroom.yaml:22:11: routes.1.path: \":id\" begins with a colon, which does not define a parameter (write \"{id}\")"
            ])
    }
}
