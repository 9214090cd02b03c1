import CloakroomCore
import NIOCore
import TestSupport
import Testing

@testable import cloakroom

@Suite("doctor names keys that the configuration has")
struct DoctorKeysTests {
    @Test("The section for TLS of an identity has no certificate of the client and no other name")
    func identity() {
        for (keys, expected): (Set<String>, [String]) in [
            (["caFile"], ["identities.a.issuer"]),
            (["caFile", "certificateFile"], ["identities.a.issuer", "identities.a.tls.certificateFile"]),
        ] {
            var step = DoctorStep("TLS", .passed)
            ConnectionProbe(
                target: UpstreamTargetConfiguration(HostAndPort(host: "127.0.0.1", port: 1)),
                targetKey: "identities.a.issuer", tls: nil, tlsKey: "identities.a.tls", tlsKeys: keys,
                limit: .seconds(1)
            ).explain(ChannelError.eof, [], name: "127.0.0.1", in: &step)
            expect(step.changes.map(\.key), equals: expected)
        }
    }

    @Test("Without a user of the store, its password is to be changed")
    func password() {
        var configuration = GatewayConfiguration.defaults.session
        expect(StoreDiagnosis(configuration: configuration).key(.noAuth), equals: "session.valkey.passwordFile")
        configuration.valkey.user = "cloakroom"
        expect(StoreDiagnosis(configuration: configuration).key(.noAuth), equals: "session.valkey.user")
        expect(StoreDiagnosis(configuration: configuration).key(.noPermission), equals: "session.valkey.user")
    }
}
