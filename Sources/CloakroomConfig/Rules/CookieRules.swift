import CloakroomCore

/// A session's cookie never travels in the clear, but for development on one's own machine.
enum CookieValidation {
    static func check(_ cookie: CookieConfiguration, scope: ConfigScope, listeners: [ListenerSection]) {
        // Without usable addresses there is no telling.
        let addresses = listeners.compactMap(\.address)
        guard addresses.count == listeners.count, !listeners.isEmpty else { return }
        guard cookie.isSecure || scope.isInvalid("secure") else {
            checkDevelopment(cookie, scope: scope, listeners: listeners)
            return
        }
        for listener in listeners where !listener.hasTLS && !listener.isTLSTerminatedInFront {
            guard !listener.scope.isInvalid("tlsTerminatedInFront"), !scope.isInvalid("secure") else { continue }
            listener.scope.report(
                ConfigValueError(
                    "sessions and passwords would travel in the clear",
                    "add tls; or tlsTerminatedInFront: true behind a proxy that speaks TLS; or for development on"
                        + " loopback only session.cookie.secure: false"), at: "address",
                becauseOf: [scope.path + ["secure"]]
                    + ["tls", "tlsTerminatedInFront"].map { listener.scope.path + [$0] })
        }
        if !scope.isInvalid("name"), !cookie.name.hasPrefix(CookieConfiguration.hostPrefix) {
            scope.report(
                ConfigValueError(
                    "\(DiagnosticText.quoted(cookie.name)) lacks the prefix \(CookieConfiguration.hostPrefix)",
                    "write \(CookieConfiguration.hostPrefix)\(cookie.name)"), at: "name",
                becauseOf: [scope.path + ["secure"]])
        } else if cookie.name == CookieConfiguration.hostPrefix {
            scope.report(
                ConfigValueError("nothing follows the prefix", "write \(CookieConfiguration.hostPrefix)cloakroom"),
                at: "name",
                becauseOf: [scope.path + ["secure"]])
        }
    }

    private static func checkDevelopment(
        _ cookie: CookieConfiguration, scope: ConfigScope, listeners: [ListenerSection]
    ) {
        let isOnLoopback = listeners.allSatisfy { $0.address?.isLoopback == true && !$0.isTLSTerminatedInFront }
        guard isOnLoopback else {
            scope.report(
                ConfigValueError(
                    "only development on loopback goes without Secure", "write true, or listen on 127.0.0.1 only"),
                at: "secure")
            return
        }
        // Browsers refuse a cookie with such a name that is not Secure.
        for prefix in [CookieConfiguration.hostPrefix, "__Secure-"]
        where cookie.name.lowercased().hasPrefix(prefix.lowercased()) {
            scope.report(
                ConfigValueError(
                    "\(prefix) is for Secure cookies only", "leave the prefix out while secure is false"), at: "name")
        }
    }
}

extension HostAndPort {
    /// Whether only this machine reaches it.
    var isLoopback: Bool {
        if host.lowercased() == "localhost" { return true }
        guard let bytes = IPAddress.bytes(of: host) else { return false }
        return bytes.count == 4 ? bytes[0] == 127 : bytes == Array(repeating: 0, count: 15) + [1]
    }
}
