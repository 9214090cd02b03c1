/// A native app whose users sign in with the browser of their system (RFC 8252). It gets the session cookie in its own
/// HTTP client. Apps belong to the default site.
public struct AppConfiguration: Sendable, Equatable {
    /// The name: 1 to 64 bytes.
    public var name: String
    /// Where the browser continues, without a query: an `https` URL; a URL of a custom scheme with a dot; or
    /// `http://127.0.0.1/path` or `http://[::1]/path`, to which each login adds its port (RFC 8252 §7).
    public var redirect = ""
    /// The name for users, 1 to 64 bytes; `nil` for ``name``.
    public var label: String?
    /// Whether a link leads back to the app in place of a redirect; always unless that is `https`.
    public var confirm = false
    /// The names of the providers that its users may sign in with, the default first; empty for all.
    public var identities: [String] = []
    /// The maximum time of its sessions without a use, 1 s to 400 days; `nil` for that of ``SessionConfiguration``.
    public var idleTimeout: Duration?
    /// The maximum lifetime of its sessions, 1 s to 400 days; `nil` for that of ``SessionConfiguration``.
    public var absoluteTimeout: Duration?
    /// Which of its sessions are bound to a device; `nil` for the mode of ``DeviceConfiguration``.
    public var device: DeviceConfiguration.Mode?

    package init(name: String) { self.name = name }

    /// Whether the app listens on a port of loopback, which each login names.
    package var isLoopback: Bool { redirect.hasPrefix("http://") }
    /// Whether another app may claim the redirect too.
    package var hasCustomScheme: Bool { !isLoopback && !redirect.hasPrefix("https://") }
    /// Whether the user has to follow a link: another program may have the scheme or the port.
    package var needsConfirmation: Bool { confirm || isLoopback || hasCustomScheme }

    /// What applies to new sessions of the app in place of the configuration; `nil` if nothing does.
    package func terms(_ session: SessionConfiguration) -> SessionTerms? {
        guard idleTimeout != nil || absoluteTimeout != nil || device != nil else { return nil }
        return SessionTerms(
            idle: idleTimeout ?? session.idleTimeout, absolute: absoluteTimeout ?? session.absoluteTimeout,
            device: device ?? session.device.mode)
    }

    /// The URL at which the app continues.
    /// - Parameter result: A parameter: a name and a value of letters, digits, `-` and `_`.
    package func url(port: UInt16, _ result: (name: String, value: String)) -> String {
        var url = redirect
        if isLoopback, let end = url.dropFirst("http://".count).firstIndex(of: "/") {
            url.insert(contentsOf: ":\(port)", at: end)
        }
        return "\(url)?\(result.name)=\(result.value)"
    }
}
