import CloakroomCore

/// `admin`: the admin listener.
///
/// - `enabled`: default `true`.
/// - `address`: host and port; default `127.0.0.1:9464`.
/// - `token` or `tokenFile`: the token for ending sessions; at least 16 bytes of visible ASCII. Default: none.
/// - `tokenScope`: `actions` (default) or `everything`, which requires a token.
/// - `allowedHosts`: a list of host names; default none.
/// - `tls`: see ``TLSSection``. Without it the listener accepts unencrypted connections.
struct AdminSection {
    let scope: ConfigScope
    let configuration: AdminConfiguration?

    init(from scope: ConfigScope) {
        self.scope = scope
        let isEnabled = scope.value("enabled", as: .flag, default: true)
        let configuration = AdminConfiguration(
            address: scope.value("address", as: .listening, default: AdminConfiguration().address),
            token: scope.secret("token", as: .operatorToken, isRequired: false),
            tokenScope: scope.value("tokenScope", as: .choice(), default: AdminConfiguration.TokenScope.actions),
            allowedHosts: scope.list("allowedHosts", as: .adminHost) ?? [],
            tls: TLSSection(from: scope.section("tls")).configuration)
        if configuration.tokenScope == .everything, configuration.token == nil, !scope.isInvalid("token") {
            scope.report(
                ConfigValueError(
                    "requires admin.token: without it the listener would serve only /live and /ready",
                    "set admin.token or admin.tokenFile, or write actions"),
                at: "tokenScope")
        }
        self.configuration = isEnabled ? configuration : nil
    }
}

extension ValueFormat where Value == String {
    /// A name in the `Host` of requests to the admin listener, in lower case.
    fileprivate static let adminHost = ValueFormat("host name without port") { text throws(ConfigValueError) in
        guard IPAddress.bytes(of: text) == nil else {
            throw ConfigValueError("is not needed: IP addresses are always allowed", "leave it out")
        }
        guard (1...253).contains(text.utf8.count), HostAndPort.isHost(text) else {
            throw ConfigValueError(
                "must be a host name without port, not \(DiagnosticText.quoted(text))",
                "write the name by which the listener is requested, such as cloakroom.monitoring.svc")
        }
        return text.lowercased()
    }
}
