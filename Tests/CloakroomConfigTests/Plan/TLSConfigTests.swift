import CloakroomConfig
import CloakroomCore
import Testing

@Suite struct TLSConfigTests {
    private static let pair = "certificateFile: tls.crt, keyFile: tls.key"

    /// The good configuration with a listener that speaks TLS, in a folder with the files.
    private func folder(tls: String) throws -> ConfigFolder {
        let address = "  - address: 127.0.0.1:0\n"
        let yaml = ConfigFolder.good.split(separator: address, maxSplits: 1).joined(
            separator: address + "    tls: { \(tls) }\n")
        let folder = try ConfigFolder(yaml)
        for name in ["tls", "other", "ca"] {
            try folder.write("-----BEGIN CERTIFICATE-----\n", to: name + ".crt")
            try folder.write("-----BEGIN PRIVATE KEY-----\n", to: name + ".key")
        }
        return folder
    }

    private func plan(tls: String) throws -> (TLSPlan?, ConfigFolder) {
        let folder = try folder(tls: tls)
        return (try folder.load().plan.listeners[0].tls, folder)
    }

    @Test func aPairOfFilesIsEnough() throws {
        let (plan, folder) = try plan(tls: Self.pair)
        #expect(plan == TLSPlan(certificateFile: folder.path + "/tls.crt", keyFile: folder.path + "/tls.key"))
        #expect(plan?.minimumVersion == .tls12)
        #expect(plan?.cipherSuites == TLSCipherSuite.allCases)
        #expect(plan?.moreCertificates == [])
        #expect(plan?.clientCertificates == nil)
    }

    @Test func everyKeyIsRead() throws {
        let (plan, folder) = try plan(
            tls: Self.pair + ", moreCertificates: [{ certificateFile: other.crt, keyFile: other.key }],"
                + " cipherSuites: [tls_ecdhe_rsa_with_aes_128_gcm_sha256, TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384],"
                + " clientCertificates: { caFile: ca.crt, mode: optional }")
        let other = CertificatePlan(
            certificateFile: folder.path + "/other.crt", keyFile: folder.path + "/other.key")
        #expect(plan?.moreCertificates == [other])
        #expect(plan?.cipherSuites == [.ecdheRSAWithAES128GCM, .ecdheECDSAWithAES256GCM])
        #expect(plan?.clientCertificates == ClientCertificatePlan(caFile: folder.path + "/ca.crt", mode: .optional))
    }

    @Test func certificatesOfClientsAreRequiredUnlessSaidOtherwise() throws {
        let (plan, _) = try plan(tls: Self.pair + ", clientCertificates: { caFile: ca.crt }")
        #expect(plan?.clientCertificates?.mode == .required)
    }

    @Test(arguments: [
        ("cipherSuites: [AES128-SHA]", "listeners.0.tls.cipherSuites.0: \"AES128-SHA\" is not one of the choices"),
        ("cipherSuites: [TLS_RSA_WITH_AES_128_CBC_SHA]", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
        ("cipherSuites: []", "listeners.0.tls.cipherSuites: is empty"),
        (
            "minimumVersion: 1.3, cipherSuites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]",
            "listeners.0.tls.cipherSuites: names suites of TLS 1.2, which is not spoken"
        ),
        (
            "moreCertificates: [{ certificateFile: other.crt }]",
            "listeners.0.tls.moreCertificates.0.keyFile: is missing"
        ),
        (
            "moreCertificates: [{ certificateFile: other.key, keyFile: other.key }]",
            "listeners.0.tls.moreCertificates.0.certificateFile: \"other.key\" holds no certificate"
        ),
        ("clientCertificates: { mode: optional }", "listeners.0.tls.clientCertificates.caFile: is missing"),
        (
            "clientCertificates: { caFile: ca.crt, mode: sometimes }",
            "listeners.0.tls.clientCertificates.mode: \"sometimes\" is not one of the choices"
                + " (write required or optional)"
        ),
        ("clientCertificates: { caFile: nowhere.crt }", "there is no file \"nowhere.crt\""),
        ("clientCertificates: ca.crt", "listeners.0.tls.clientCertificates: expects keys, not one value"),
        ("cyperSuites: []", "listeners.0.tls.cyperSuites"),
    ])
    func aMistakeIsToldAtItsKey(keys: String, mistake: String) throws {
        let mistakes = try folder(tls: "\(Self.pair), \(keys)").mistakes()
        #expect(mistakes.count == 1, "\(mistakes)")
        #expect(mistakes.first?.contains(mistake) == true, "\(mistakes)")
    }
}
