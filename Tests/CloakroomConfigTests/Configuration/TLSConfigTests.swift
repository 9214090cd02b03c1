import CloakroomConfig
import CloakroomCore
import TestSupport
import Testing

@Suite struct TLSConfigTests {
    private static let pair = "certificateFile: tls.crt, keyFile: tls.key"

    /// The valid configuration with a TLS listener, in a folder with the certificate files.
    private func directory(tls: String) throws -> ConfigFixture {
        let address = "  - address: 127.0.0.1:0\n"
        let yaml = ConfigFixture.good.split(separator: address, maxSplits: 1).joined(
            separator: address + "    tls: { \(tls) }\n")
        let directory = try ConfigFixture(yaml)
        for name in ["tls", "other", "ca"] {
            try directory.write("-----BEGIN CERTIFICATE-----\n", to: name + ".crt")
            try directory.write("-----BEGIN PRIVATE KEY-----\n", to: name + ".key")
        }
        return directory
    }

    private func configuration(tls: String) throws -> (ListenerTLSConfiguration?, ConfigFixture) {
        let directory = try directory(tls: tls)
        return (try directory.load().configuration.listeners[0].tls, directory)
    }

    @Test func aPairOfFilesIsEnough() throws {
        let (configuration, directory) = try configuration(tls: Self.pair)
        expect(
            configuration,
            equals: ListenerTLSConfiguration(
                certificateFile: directory.path + "/tls.crt", keyFile: directory.path + "/tls.key"))
        expect(configuration?.minimumVersion, equals: .tls12)
        expect(configuration?.additionalCertificates, equals: [])
        expect(configuration?.clientCertificates, equals: nil)
    }

    @Test func everyKeyIsRead() throws {
        let (configuration, directory) = try configuration(
            tls: Self.pair + ", additionalCertificates: [{ certificateFile: other.crt, keyFile: other.key }],"
                + " clientCertificates: { caFile: ca.crt, mode: optional }")
        let other = CertificateConfiguration(
            certificateFile: directory.path + "/other.crt", keyFile: directory.path + "/other.key")
        expect(configuration?.additionalCertificates, equals: [other])
        expect(
            configuration?.clientCertificates,
            equals: ClientCertificateConfiguration(caFile: directory.path + "/ca.crt", mode: .optional))
    }

    @Test func certificatesOfClientsAreRequiredUnlessSaidOtherwise() throws {
        let (configuration, _) = try configuration(tls: Self.pair + ", clientCertificates: { caFile: ca.crt }")
        expect(configuration?.clientCertificates?.mode, equals: .required)
    }

    @Test(arguments: [
        (
            "additionalCertificates: [{ certificateFile: other.crt }]",
            "listeners.0.tls.additionalCertificates.0.keyFile: required key missing"
        ),
        (
            "additionalCertificates: [{ certificateFile: other.key, keyFile: other.key }]",
            "listeners.0.tls.additionalCertificates.0.certificateFile: must be a file with a PEM certificate: \"other.key\""
        ),
        ("clientCertificates: { mode: optional }", "listeners.0.tls.clientCertificates.caFile: required key missing"),
        (
            "clientCertificates: { caFile: ca.crt, mode: sometimes }",
            "listeners.0.tls.clientCertificates.mode: must be one of the allowed values, not \"sometimes\""
                + " (write required or optional)"
        ),
        ("clientCertificates: { caFile: nowhere.crt }", "must be an existing file: \"nowhere.crt\""),
        ("clientCertificates: ca.crt", "listeners.0.tls.clientCertificates: must be a section of keys, not one value"),
        ("cyperSuites: []", "listeners.0.tls.cyperSuites"),
    ])
    func aValueErrorIsToldAtItsKey(keys: String, valueError: String) throws {
        let valueErrors = try directory(tls: "\(Self.pair), \(keys)").valueErrors()
        expect(valueErrors.count, equals: 1, "\(valueErrors)")
        expect(valueErrors.first?.contains(valueError), equals: true, "\(valueErrors)")
    }
}
