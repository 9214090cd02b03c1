import CloakroomConfig
import CloakroomCore
import Testing

@Suite("Which request fields a route can let through")
struct PassFieldsTests {
    private static func mistakes(_ names: String) throws -> [String] {
        try ConfigFolder.mistakes(
            replacing: "inject: [apiToken, bearer]", by: "inject: [apiToken, bearer]\n    passFields: [\(names)]")
    }

    @Test("Rule 43: none by default, and what is listed is in the plan")
    func listed() throws {
        #expect(try ConfigFolder().load().plan.routes.allSatisfy(\.passFields.isEmpty))
        let folder = try ConfigFolder(
            ConfigFolder.good.replacing(
                "inject: [apiToken, bearer]",
                with: "inject: [apiToken, bearer]\n    passFields: [X-HTTP-Method-Override, remote-user]"))
        #expect(try folder.load().plan.routes[1].passFields == ["X-HTTP-Method-Override", "remote-user"])
        let report = folder.report { Report.explain($0, method: "GET", target: "/videos/1") }
        #expect(
            report.text.contains(
                "fields that name another method, path, address or user except X-HTTP-Method-Override and remote-user\n"
            ))
    }

    @Test(
        "Rule 43: what the gateway sets, what ends at this hop and what passes anyway cannot be listed",
        arguments: [
            "Authorization", "Cookie", "Connection", "X-Api-Token", "Host", "X-Forwarded-For", "X-Real-IP",
            "X-Client-Cert-Subject", "Accept", "X-HTTP-Method-Overrride",
        ])
    func refused(name: String) throws {
        let mistakes = try Self.mistakes(name)
        #expect(mistakes.count == 1)
        #expect(mistakes.first?.contains("routes.1.passFields.0: \(name) is ") == true, "\(mistakes)")
    }

    @Test("Rule 43: the field of an API token cannot be listed")
    func apiToken() throws {
        let yaml = ConfigFolder.good
            .replacing("apiToken: { value: demo }", with: "apiToken: { header: X-Remote-Token, value: demo }")
            .replacing(
                "inject: [apiToken, bearer]", with: "inject: [apiToken, bearer]\n    passFields: [x-remote-token]")
        let mistakes = try ConfigFolder(yaml).mistakes()
        #expect(mistakes.count == 1)
        #expect(mistakes.first?.contains("is the field of an API token") == true, "\(mistakes)")
    }
}
