import CloakroomCore

extension UpstreamTLSConfiguration {
    /// What TLS with an upstream needs. Verification cannot be turned off.
    ///
    /// - `caFile`: PEM file of the certificates that are trusted instead of the system's.
    /// - `certificateFile`, `keyFile`: PEM files of the gateway's own certificate; both or none.
    /// - `serverName`: a host name in place of the target's, for SNI and verification.
    /// - Parameter targets: The upstream's targets, if they could be read: without `https` among them nothing of this
    ///   would be in effect.
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
                ConfigValueError("stands without \(twin)", "name both files, or none"), at: name,
                becauseOf: [scope.path + [twin]])
        }
        if let targets, !targets.isEmpty, !targets.contains(where: { $0.scheme == .https }) {
            let key = ["caFile", "certificateFile", "keyFile", "serverName"].first(where: scope.isSet)
            if let key {
                scope.report(
                    ConfigValueError(
                        "no target of this upstream is reached over TLS", "write https:// targets, or leave it out"),
                    at: key)
            }
        }
        self.init(caFile: caFile, serverName: serverName)
        if let certificateFile, let keyFile {
            clientCertificate = ClientCertificate(certificateFile: certificateFile, keyFile: keyFile)
        }
    }
}
