import CloakroomCore

/// A secret that everybody can know protects nothing once other machines can connect.
enum PlaceholderRules {
    /// Complains about each placeholder where any listener, or for the operators' token also the admin listener, is reached
    /// from other machines. On loopback placeholders are for trying things out.
    static func check(_ reading: ConfigParser, listeners: [ListenerSection], admin: AdminSection) {
        let isExposed = listeners.contains { $0.address?.isLoopback == false }
        let isAdminExposed = admin.configuration?.address.isLoopback == false
        for path in reading.placeholders where isExposed || isAdminExposed && path == admin.scope.path + ["token"] {
            let suggestion =
                path.contains("apiToken")
                ? "write the token that the upstream has given you" : "make one with openssl rand -base64 48"
            reading.report(
                ConfigValueError(
                    "is a placeholder that everybody can know", "\(suggestion), or listen on loopback only"),
                at: path)
        }
    }
}
