import CloakroomConfig
import CloakroomCore
import TestSupport
import Testing

@Suite("Request fields that a route can forward")
struct PassFieldsTests {
    private static func valueErrors(_ names: String) throws -> [String] {
        try ConfigFixture.valueErrors(
            replacing: "inject: [apiToken, bearer]", by: "inject: [apiToken, bearer]\n    passFields: [\(names)]")
    }

    @Test("Rule 43: no fields by default, and the listed fields are in the configuration")
    func listed() throws {
        try expect(ConfigFixture().load().configuration.routes.allSatisfy(\.passFields.isEmpty))
        let directory = try ConfigFixture(
            ConfigFixture.good.replacing(
                "inject: [apiToken, bearer]",
                with: "inject: [apiToken, bearer]\n    passFields: [X-HTTP-Method-Override, remote-user]"))
        try expect(
            directory.load().configuration.routes[1].passFields, equals: ["X-HTTP-Method-Override", "remote-user"])
        let report = directory.report { CommandReport.explain($0, method: "GET", target: "/videos/1") }
        expect(
            report.text.contains(
                "fields that name another method, path, address or user except X-HTTP-Method-Override and remote-user\n"
            ))
    }

    @Test(
        "Rule 43: fields that the gateway sets, hop-by-hop fields and fields forwarded by default cannot be listed",
        arguments: [
            "Authorization", "Cookie", "Connection", "X-Api-Token", "Host", "X-Forwarded-For", "X-Real-IP",
            "X-Client-Cert-Subject", "Accept", "X-HTTP-Method-Overrride",
        ])
    func rejected(name: String) throws {
        let valueErrors = try Self.valueErrors(name)
        expect(valueErrors.count, equals: 1)
        let reasons = [
            "must be a field that a route can pass, not \(name)", "\(name) is not supported: the gateway sets it",
        ]
        expect(
            reasons.contains { valueErrors.first?.contains("routes.1.passFields.0: \($0)") == true }, "\(valueErrors)")
    }

    @Test("Rule 43: the field of an API token cannot be listed")
    func apiToken() throws {
        let yaml = ConfigFixture.good
            .replacing("apiToken: { value: demo }", with: "apiToken: { header: X-Remote-Token, value: demo }")
            .replacing(
                "inject: [apiToken, bearer]", with: "inject: [apiToken, bearer]\n    passFields: [x-remote-token]")
        let valueErrors = try ConfigFixture(yaml).valueErrors()
        expect(valueErrors.count, equals: 1)
        expect(valueErrors.first?.contains("conflicts with the field of an API token"), equals: true, "\(valueErrors)")
    }
}
