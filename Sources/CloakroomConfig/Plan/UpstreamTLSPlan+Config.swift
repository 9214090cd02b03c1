import CloakroomCore

extension UpstreamTLSConfiguration {
    /// TLS towards an upstream. Verification cannot be disabled.
    ///
    /// - `caFile`: PEM file with the trusted certificates, instead of those of the system.
    /// - `certificateFile`, `keyFile`: PEM files of the gateway's own certificate; both or none.
    /// - `serverName`: the host name for SNI and verification, instead of the target's.
    /// - Parameter targets: The upstream's targets, if valid: without an `https` target this section has no effect.
    /// - Returns: `nil` if the section is absent.
    init?(from scope: ConfigScope, targets: [UpstreamTargetConfiguration]?) {
        let caFile = scope.optional("caFile", as: scope.pemFile(.certificate))
        let certificateFile = scope.optional("certificateFile", as: scope.pemFile(.certificate))
        let keyFile = scope.optional("keyFile", as: scope.pemFile(.privateKey))
        if let keyFile { scope.warnIfReadableByOthers(keyFile, at: "keyFile") }
        let serverName = scope.optional("serverName", as: .hostName)
        guard scope.isPresent else { return nil }
        for (name, twin) in [("keyFile", "certificateFile"), ("certificateFile", "keyFile")]
        where scope.isSet(name) && !scope.isSet(twin) {
            scope.report(
                ConfigValueError("not supported without \(twin)", "name both files, or none"), at: name,
                becauseOf: [scope.path + [twin]])
        }
        if let targets, !targets.isEmpty, !targets.contains(where: { $0.scheme == .https }) {
            let key = ["caFile", "certificateFile", "keyFile", "serverName"].first(where: scope.isSet)
            if let key {
                scope.report(
                    ConfigValueError(
                        "not supported without https:// targets", "write https:// targets, or leave it out"),
                    at: key)
            }
        }
        self.init(caFile: caFile, serverName: serverName)
        if let certificateFile, let keyFile {
            clientCertificate = ClientCertificate(certificateFile: certificateFile, keyFile: keyFile)
        }
    }
}
