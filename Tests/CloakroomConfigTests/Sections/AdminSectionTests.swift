import TestSupport
import Testing

@testable import CloakroomConfig
@testable import CloakroomCore

@Suite("admin")
struct AdminSectionTests {
    private static let token = "00112233445566778899aabbccddeeff"

    @Test("By default the token is for actions, no host name is listed, and the listener uses clear text")
    func defaults() throws {
        let admin = try require(ConfigFixture().load().configuration.admin)
        expect(admin, equals: AdminConfiguration())
        expect(admin.tokenScope, equals: .actions)
        expect(admin.allowedHosts, equals: [])
        expect(admin.tls, equals: nil)
    }

    @Test("All keys can be set; host names are kept in lower case")
    func everyKey() throws {
        let fixture = try ConfigFixture(
            ConfigFixture.good + """
                admin:
                  token: \(Self.token)
                  tokenScope: everything
                  allowedHosts: [Cloakroom.monitoring.svc, gateway]
                  tls:
                    certificateFile: a.pem
                    keyFile: a.pem
                    clientCertificates: { caFile: a.pem, mode: optional }

                """)
        try fixture.write("-----BEGIN CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\n", to: "a.pem")
        let admin = try require(fixture.load().configuration.admin)
        expect(admin.tokenScope, equals: .everything)
        expect(admin.allowedHosts, equals: ["cloakroom.monitoring.svc", "gateway"])
        expect(admin.tls?.certificate.certificateFile, equals: fixture.path + "/a.pem")
        expect(admin.tls?.clientCertificates?.mode, equals: .optional)
    }

    @Test(
        "A listener whose pages other machines can read is a warning, unless the scope of a token is written",
        arguments: [
            ("0.0.0.0:9464", "", true), ("[::]:9464", "", true), ("10.0.0.1:9464", "tokenScope: actions", true),
            ("127.0.0.1:9464", "", false), ("0.0.0.0:9464", "enabled: false", false),
            ("0.0.0.0:9464", "token: 00112233445566778899aabbccddeeff", true),
            ("0.0.0.0:9464", "token: 00112233445566778899aabbccddeeff, tokenScope: actions", false),
            ("0.0.0.0:9464", "token: 00112233445566778899aabbccddeeff, tokenScope: everything", false),
        ])
    func readable(_ address: String, _ other: String, _ isWarned: Bool) throws {
        let admin = "admin: { address: \"\(address)\", \(other) }\n"
        let warnings = try ConfigFixture(ConfigFixture.good + admin).load().warnings
        expect(warnings.map(\.key), equals: (isWarned ? ["admin.address"] : []))
        let suggestion =
            "write 127.0.0.1:9464, or set admin.token and tokenScope: everything, or actions if these clients may read them"
        expect(warnings.allSatisfy { $0.suggestion == suggestion })
    }

    @Test(
        "A token for everything requires a token, and a host name that cannot occur, or needs no listing, is rejected",
        arguments: [
            ("tokenScope: everything", "admin.tokenScope: requires admin.token"),
            ("allowedHosts: [\"cloakroom:9464\"]", "admin.allowedHosts"),
            ("allowedHosts: [\"https://cloakroom\"]", "admin.allowedHosts"),
            ("allowedHosts: [\"\"]", "admin.allowedHosts"), ("allowedHosts: [\"*.example.com\"]", "admin.allowedHosts"),
            ("allowedHosts: [\"192.0.2.1\"]", "is not needed: IP addresses are always allowed"),
            ("allowedHosts: [\"::1\"]", "is not needed: IP addresses are always allowed"),
        ])
    func mistakes(keys: String, message: String) throws {
        let problems = try ConfigFixture(ConfigFixture.good + "admin: { \(keys) }\n").valueErrors()
        expect(problems.count, equals: 1)
        expect(problems.first?.contains(message), equals: true)
    }
}
