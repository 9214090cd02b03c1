package import CloakroomWire

/// The hosts that are this machine to browsers: `localhost` and names below it (RFC 6761 §6.3), 127.0.0.0/8 and `[::1]`.
/// No page of another site can have one of them, whatever its name resolves to.
package enum LocalHost {
    /// Whether an authority has such a host, with or without a port. A name may have a final dot.
    package static func isHost(of authority: ByteRange, _ bytes: Span<UInt8>) -> Bool {
        guard let host = OriginView(isSecure: false, authority: authority, bytes)?.host else { return false }
        let name = String(decoding: (host.start..<host.end).map { ASCII.lower(bytes[$0]) }, as: UTF8.self)
        if name.hasPrefix("["), name.hasSuffix("]") { return IPAddress.isLoopback(String(name.dropFirst().dropLast())) }
        let plain = name.hasSuffix(".") ? name.dropLast() : name[...]
        return plain == "localhost" || plain.hasSuffix(".localhost") && !plain.hasPrefix(".")
            || IPAddress.isLoopback(name)
    }
}
