import CloakroomCore

/// Rejects publicly known secrets if other machines can connect.
enum PlaceholderRules {
    /// Reports each placeholder if a listener is reachable from other machines; for the admin token, also if the admin
    /// listener is. On loopback, placeholders are allowed for testing.
    static func check(_ reading: ConfigParser, listeners: [ListenerSection], admin: AdminSection) {
        let isExposed = listeners.contains { $0.address?.isLoopback == false }
        let isAdminExposed = admin.configuration?.address.isLoopback == false
        for path in reading.placeholders where isExposed || isAdminExposed && path == admin.scope.path + ["token"] {
            let suggestion =
                path.contains("apiToken")
                ? "write the token that the upstream issued" : "make one with openssl rand -base64 48"
            reading.report(
                ConfigValueError(
                    "must be a secret, not a published placeholder", "\(suggestion), or listen on loopback only"),
                at: path)
        }
    }
}
