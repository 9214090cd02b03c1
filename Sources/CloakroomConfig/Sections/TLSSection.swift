import CloakroomCore

extension ListenerTLSConfiguration {
    /// `tls` of a listener. `certificateFile` and `keyFile` are required, also of each additional certificate, which is
    /// selected by SNI.
    /// - Returns: `nil` if the section is absent or invalid.
    init?(from scope: ConfigScope) {
        let certificate = CertificateConfiguration(from: scope)
        let more = scope.items("additionalCertificates").compactMap { CertificateConfiguration(from: $0) }
        let version = scope.value("minimumVersion", as: .choice(), default: TLSVersion.tls12)
        let suites = Self.cipherSuites(scope, minimumVersion: version)
        let clients = ClientCertificateConfiguration(from: scope.section("clientCertificates"))
        guard let certificate else { return nil }
        self.init(
            certificateFile: certificate.certificateFile, keyFile: certificate.keyFile, additionalCertificates: more,
            minimumVersion: version, cipherSuites: suites, clientCertificates: clients)
    }

    private static func cipherSuites(_ scope: ConfigScope, minimumVersion: TLSVersion) -> [TLSCipherSuite] {
        let suites: [TLSCipherSuite]? = scope.nonEmptyList("cipherSuites", as: .choice())
        guard let suites else { return TLSCipherSuite.allCases }
        if minimumVersion == .tls13 {
            scope.report(
                ConfigValueError(
                    "conflicts with minimumVersion: the suites are for TLS 1.2",
                    "leave it out, or set minimumVersion to 1.2"),
                at: "cipherSuites")
        }
        return suites
    }
}

extension CertificateConfiguration {
    fileprivate init?(from scope: ConfigScope) {
        let certificate = scope.required("certificateFile", as: scope.pemFile(.certificate))
        let key = scope.required("keyFile", as: scope.pemFile(.privateKey))
        guard let certificate, let key else { return nil }
        scope.warnAboutAccess(to: key, at: "keyFile")
        self.init(certificateFile: certificate, keyFile: key)
    }
}

extension ClientCertificateConfiguration {
    fileprivate init?(from scope: ConfigScope) {
        let authorities = scope.required("caFile", as: scope.pemFile(.certificate))
        let mode = scope.value("mode", as: .choice(), default: Mode.required)
        guard let authorities else { return nil }
        self.init(caFile: authorities, mode: mode)
    }
}
