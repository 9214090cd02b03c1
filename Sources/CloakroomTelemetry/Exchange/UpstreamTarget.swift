/// An upstream's target as labels name it.
public struct UpstreamTarget: Sendable, Hashable {
    /// The upstream's configured name.
    public let upstream: String
    /// Host name or address of the target.
    public let address: String
    /// The target's port.
    public let port: Int

    /// Names a target.
    public init(upstream: String, address: String, port: Int) {
        self.upstream = upstream
        self.address = address
        self.port = port
    }

    var authority: String {
        address.contains(":") ? "[\(address)]:\(port)" : "\(address):\(port)"
    }
}
