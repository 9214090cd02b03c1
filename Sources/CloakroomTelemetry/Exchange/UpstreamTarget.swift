/// The labels of a target of an upstream.
public struct UpstreamTarget: Sendable, Hashable {
    /// The upstream's configured name.
    public let upstream: String
    /// Host name or address of the target, or the path of a socket.
    public let address: String
    /// The target's port; 0 for a socket, which has none.
    public let port: Int

    /// Creates the labels of a target.
    public init(upstream: String, address: String, port: Int) {
        self.upstream = upstream
        self.address = address
        self.port = port
    }

    var authority: String {
        if port == 0 { return "unix:\(address)" }
        return address.contains(":") ? "[\(address)]:\(port)" : "\(address):\(port)"
    }
}
