import CloakroomCore

extension ListenerTLSConfiguration {
    /// `tls` of a listener. `certificateFile` and `keyFile` are required, also of each additional certificate, which is
    /// selected by SNI.
    /// - Parameter isAdmin: Whether the listener is that of operators: it has one name, and both versions of TLS.
    /// - Returns: `nil` if the section is absent or invalid.
    init?(from scope: ConfigScope, isAdmin: Bool = false) {
        let certificate = CertificateConfiguration(from: scope)
        let more =
            isAdmin ? [] : scope.items("additionalCertificates").compactMap { CertificateConfiguration(from: $0) }
        let version = isAdmin ? .tls12 : scope.value("minimumVersion", as: .choice(), default: TLSVersion.tls12)
        let clients = ClientCertificateConfiguration(from: scope.section("clientCertificates"))
        guard let certificate else { return nil }
        self.init(
            certificateFile: certificate.certificateFile, keyFile: certificate.keyFile, additionalCertificates: more,
            minimumVersion: version, clientCertificates: clients)
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
