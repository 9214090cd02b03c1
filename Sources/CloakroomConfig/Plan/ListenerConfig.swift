import CloakroomCore

/// An item of `listeners`.
///
/// - `address`: host and port to listen on; port 0 lets the system choose. Required.
/// - `tls.certificateFile`, `tls.keyFile`: PEM files. Required within `tls`.
/// - `tls.minimumVersion`: `1.2` (default) or `1.3`.
/// - `tlsTerminatedInFront`: whether a proxy in front speaks TLS with clients. Default `false`.
struct ListenerConfig {
    let scope: ConfigScope
    let address: HostAndPort?
    let tls: TLSPlan?
    /// Whether `tls` is given, right or wrong.
    let hasTLS: Bool
    let isTLSTerminatedInFront: Bool

    init(from scope: ConfigScope) {
        self.scope = scope
        address = scope.required("address", as: .listening)
        let tls = scope.section("tls")
        hasTLS = scope.reading.isSectionGiven(tls.path)
        let folder = scope.reading.folder
        let certificate = tls.required("certificateFile", as: PEMFile.path(of: .certificate, in: folder))
        let key = tls.required("keyFile", as: PEMFile.path(of: .privateKey, in: folder))
        let version = tls.value("minimumVersion", as: .choice(), default: TLSVersion.tls12)
        if let certificate, let key {
            self.tls = TLSPlan(certificateFile: certificate, keyFile: key, minimumVersion: version)
        } else {
            self.tls = nil
        }
        isTLSTerminatedInFront = scope.value("tlsTerminatedInFront", as: .flag, default: false)
        if hasTLS, isTLSTerminatedInFront {
            scope.complain(
                Mistake("this listener speaks TLS itself", "keep either tls or tlsTerminatedInFront"),
                at: "tlsTerminatedInFront")
        }
    }

    var plan: ListenerPlan? {
        address.map { ListenerPlan(address: $0, tls: tls) }
    }
}

/// `admin`: the listener for operators.
///
/// - `enabled`: default `true`.
/// - `address`: host and port; default `127.0.0.1:9464`.
struct AdminConfig {
    let scope: ConfigScope
    let plan: AdminPlan?

    init(from scope: ConfigScope) {
        self.scope = scope
        let isEnabled = scope.value("enabled", as: .flag, default: true)
        let plan = AdminPlan(address: scope.value("address", as: .listening, default: AdminPlan().address))
        self.plan = isEnabled ? plan : nil
    }
}
