import CloakroomConfig
import CloakroomCore
import Foundation
import TestSupport
import Testing

@Suite("Placeholders and variable references instead of secrets")
struct VariableReferenceTests {
    /// Every secret: its YAML with a placeholder for the value, its key, and whether it is a list.
    static let secrets: [(yaml: @Sendable (String) -> String, key: String)] = [
        ({ good("{ value: demo }", "{ value: '\($0)' }") }, "upstreams.api.apiToken.value"),
        ({ ConfigFixture.good + "admin: { token: '\($0)' }\n" }, "admin.token"),
        ({ good("  idleTimeout: 15m", "  secrets: ['\($0)']") }, "session.secrets"),
        ({ good("  idleTimeout: 15m", "  valkey: { password: '\($0)' }") }, "session.valkey.password"),
        (
            { good("  idleTimeout: 15m", "  valkey: { sentinelPrimary: a, sentinelPassword: '\($0)' }") },
            "session.valkey.sentinelPassword"
        ),
        ({ ConfigFixture.good + "tracing: { otlp: { headers: ['x-key=\($0)'] } }\n" }, "tracing.otlp.headers"),
        ({ call("signIn", $0) }, "upstreams.api.client.secret"),
        ({ identity($0) }, "identities.company.client.secret"),
    ]

    /// The configuration with a token call that has a client.
    private static func call(_ name: String, _ secret: String) -> String {
        let call =
            "client: { id: gateway, secret: '\(secret)' }\n    \(name): { path: /token, credentials: oauth }"
        let signIn = "signIn: { path: /auth }"
        return good(signIn, name == "signIn" ? call : "\(signIn)\n    \(call)")
    }

    private static func identity(_ secret: String) -> String {
        ConfigFixture.good
            + """
            accounts: { publicURL: "http://127.0.0.1:8080" }
            identities:
              company:
                issuer: http://127.0.0.1:9
                client: { id: gateway, secret: '\(secret)' }
                tokensFor: [api]

            """
    }

    private static func good(_ piece: String, _ other: String) -> String {
        ConfigFixture.good.replacingOccurrences(of: piece, with: other)
    }

    static let references = [
        "${MY_TOKEN}", "$MY_TOKEN", "${MY_TOKEN:-fallback}", "$(MY_TOKEN)", " ${MY_TOKEN} ", "%MY_TOKEN%",
        "{{ .token }}", "$_A1",
    ]

    @Test(
        "Rule 42: a reference to a variable is not accepted as a secret, and the error suggests a correction",
        arguments: references)
    func inTheFile(_ reference: String) throws {
        for secret in Self.secrets {
            let lines = try ConfigFixture(secret.yaml(reference)).valueErrors()
            expect(lines.count, equals: 1, "\(lines)")
            let line = lines.first ?? ""
            expect(line.contains(": \(secret.key)"), "\(line)")
            expect(line.contains("variable references are not supported"), "\(line)")
            let variable =
                "CLOAKROOM_" + secret.key.replacing(/[A-Z]/) { "_\($0.output)" }.replacing(".", with: "_").uppercased()
            expect(line.contains("set \(variable) "), "\(line)")
            expect(line.contains("\(secret.key)File"), "\(line)")
            expect(!line.contains(reference), "\(line)")
        }
    }

    @Test("Rule 42: a reference to a variable is rejected from a variable, a flag and a file too")
    func elsewhere() throws {
        let directory = try ConfigFixture()
        try directory.write("${MY_TOKEN}\n", to: "token")
        for (environment, overrides) in [
            (["CLOAKROOM_ADMIN_TOKEN": "${MY_TOKEN_OF_32_BYTES}"], []),
            ([:], [("admin.token", "${MY_TOKEN_OF_32_BYTES}")]),
            ([:], [("admin.tokenFile", "token")]), (["OTEL_EXPORTER_OTLP_HEADERS": "x-key=${MY_TOKEN}"], []),
            (["CLOAKROOM_SESSION_SECRETS": "$MY_TOKEN"], []),
        ] as [([String: String], [(key: String, value: String)])] {
            let lines = directory.valueErrors(environment: environment, overrides: overrides)
            expect(lines.count, equals: 1, "\(lines)")
            expect(
                lines.allSatisfy { $0.contains("variable references are not supported") && !$0.contains("MY_TOKEN") },
                "\(lines)"
            )
        }
    }

    @Test(
        "A value that only resembles a reference is a secret",
        arguments: [
            "$", "a${MY_TOKEN}", "${MY_TOKEN}a", "$1abc", "$a-b", "50%", "%%", "${MY", "p$$w0rd", "$Passw0rd", "$_a1",
        ])
    func others(_ secret: String) throws {
        let directory = try ConfigFixture(Self.secrets[0].yaml(secret))
        try expect(directory.load().configuration.upstreams[0].apiToken?.value, equals: Secret(secret))
    }

    /// The same configuration with a listener that other machines can reach.
    private func exposed(_ yaml: String) throws -> ConfigFixture {
        try ConfigFixture(
            yaml.replacingOccurrences(of: "127.0.0.1:0", with: "0.0.0.0:0\n    behindTLSProxy: true")
                .replacingOccurrences(of: "  cookie: { secure: false }\n", with: "")
                .replacingOccurrences(of: "session:\n  idleTimeout: 15m\n", with: "session: { idleTimeout: 15m }\n"))
    }

    @Test(
        "Rule 42: a placeholder is rejected if other machines can connect, and accepted on loopback",
        arguments: [
            "demo-api-token", "secret", "replace", "changeme", "CHANGE-ME", "your-token", "changeme123", "xxxxxxxx",
            "CHANGE-ME-PLEASE", "your_token_goes_here", "YOUR_ADMIN_TOKEN", "0000000000000000",
        ])
    func placeholders(_ secret: String) throws {
        let local = try ConfigFixture(Self.secrets[0].yaml(secret))
        expect(local.valueErrors(), equals: [])
        let lines = try exposed(Self.secrets[0].yaml(secret)).valueErrors()
        expect(lines.count, equals: 1, "\(lines)")
        expect(
            lines.allSatisfy {
                $0.contains("upstreams.api.apiToken.value: must not be a published placeholder")
                    && !$0.contains(secret)
            }, "\(lines)")
    }

    @Test(
        "Rule 42: a placeholder as client secret is rejected if other machines can connect, and the error names its issuer",
        arguments: ["signIn", "refresh", "revoke"])
    func clientSecret(call: String) throws {
        let lines = try exposed(Self.call(call, "your-secret")).valueErrors()
        expect(lines.count, equals: 2, "\(lines)")
        expect(
            lines.contains {
                $0.contains("upstreams.api.client.secret: must not be a published placeholder")
                    && $0.contains("that the upstream issued") && !$0.contains("your-secret")
            }, "\(lines)")
        try expect(ConfigFixture(Self.call(call, "your-secret")).valueErrors(), equals: [])
    }

    @Test(
        "A value that only contains a word of a placeholder is a secret, and so is any field of a collector",
        arguments: ["test-48151623421108839201", "1234567890token0987654321", "yourself-4f1b"])
    func exposedSecrets(_ secret: String) throws {
        try expect(exposed(Self.secrets[0].yaml(secret)).valueErrors(), equals: [])
        let tenant = ["OTEL_EXPORTER_OTLP_HEADERS": "X-Scope-OrgID=demo"]
        try expect(exposed(Self.secrets[0].yaml(secret)).valueErrors(environment: tenant), equals: [])
    }

    @Test(
        "Rule 42: a placeholder as admin token is rejected if other machines reach only the admin listener"
    )
    func adminOnly() throws {
        let token = "changeme-changeme-changeme"
        let yaml = ConfigFixture.good + "admin: { token: \(token), address: \"ADDRESS:0\" }\n"
        try expect(ConfigFixture(yaml.replacingOccurrences(of: "ADDRESS", with: "127.0.0.1")).valueErrors(), equals: [])
        let lines = try ConfigFixture(yaml.replacingOccurrences(of: "ADDRESS", with: "0.0.0.0")).valueErrors()
        expect(lines.count, equals: 1, "\(lines)")
        expect(
            lines.allSatisfy { $0.contains("admin.token: must not be a published placeholder") && !$0.contains(token) },
            "\(lines)")
    }

    @Test("Rule 42: every literal secret in the project's files is a placeholder")
    func shipped() throws {
        let package = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
        let files = [
            "config/cloakroom.yaml", "deploy/kubernetes/secret/secret.yaml", "deploy/compose/secrets.sh", "README.md",
            "Sources/cloakroom/Documentation.docc/QuickStart.md",
        ]
        var literals: Set<String> = []
        for file in files {
            let text = try String(contentsOf: package.appending(path: file), encoding: .utf8)
            for line in text.split(separator: "\n") {
                if let match = line.firstMatch(
                    of: /(?:token|password|api-token|session-secrets): ([A-Za-z][A-Za-z0-9-]+)$/)
                {
                    literals.insert(String(match.1))
                }
                if let match = line.firstMatch(of: /(?:value: |api-token printf )([A-Za-z][A-Za-z0-9-]+)/) {
                    literals.insert(String(match.1))
                }
            }
        }
        expect(literals.isSuperset(of: ["demo-api-token", "replace", "secret"]), "\(literals)")
        for literal in literals {
            try expect(exposed(Self.secrets[0].yaml(literal)).valueErrors().count, equals: 1, "\(literal)")
        }
    }
}
