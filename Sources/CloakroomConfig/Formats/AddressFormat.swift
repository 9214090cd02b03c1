import CloakroomCore
import CloakroomWire

extension ValueFormat where Value == HostAndPort {
    /// An address to listen on: `0.0.0.0:8443`, `[::1]:9464`, `localhost:0`.
    static let listening = ValueFormat("host and port") { text throws(ConfigValueError) in
        guard let address = HostAndPort(text), HostAndPort.isHost(address.host) else {
            // The host precedes the port: it is reported first if it is missing or malformed.
            let end = text.lastIndex(of: ":") ?? text.startIndex
            try require(
                HostAndPort("\(text[..<end]):0") == nil || Int(text[end...].dropFirst()) ?? 0 <= UInt16.max,
                "must have a port up to 65535, not \(text.quoted)", "write a port from 1 to 65535")
            let bare = text.split(separator: "://").last.map { $0.hasSuffix("/") ? $0.dropLast() : $0 } ?? ""
            let port = UInt16(bare.first == ":" ? bare.dropFirst() : bare)
            let isHost = bare.contains { !$0.isNumber && $0 != ":" }
            let candidates =
                port.map { ["127.0.0.1:\($0)", "0.0.0.0:\($0)"] } ?? (isHost ? ["\(bare)", "\(bare):8080"] : [])
            let fitting = candidates.filter { HostAndPort($0).map { HostAndPort.isHost($0.host) } == true }
            throw ConfigValueError(
                "must be host:port, not \(text.quoted)",
                fitting.isEmpty
                    ? "write an address such as 0.0.0.0:8443 or [::1]:8443" : "write \(fitting.alternatives)")
        }
        return address
    }
}

extension HostAndPort {
    /// An address to connect to; `nil` without a valid host and port.
    /// - Parameter usualPort: The port of an authority that has none.
    init?(connecting authority: some StringProtocol, usualPort: Int) {
        let end = authority.lastIndex(of: "]").map { authority[$0...] } ?? authority[...]
        guard let address = HostAndPort(end.contains(":") ? String(authority) : "\(authority):\(usualPort)"),
            !address.host.isEmpty, Self.isHost(address.host), address.port > 0
        else { return nil }
        self = address
    }
}

extension ValueFormat where Value == (text: String, range: CIDRBlock) {
    static let addressRange = ValueFormat("address or range in CIDR notation", render: { $0.text }) {
        text throws(ConfigValueError) in
        if let range = CIDRBlock(text) { return (text, range) }
        let message = "must be an address or range, not \(text.quoted)"
        guard let network = CIDRBlock.network(of: text) else {
            throw ConfigValueError(message, "write one such as 10.0.0.0/8")
        }
        throw ConfigValueError("\(message): bits are set after the prefix", "write \(network)")
    }
}

extension UInt8 {
    /// Whether the byte is an ASCII letter or digit.
    var isLetterOrDigit: Bool { Byte.isLetterOrDigit(self) }

    /// Whether the byte is allowed in a token (RFC 9110 §5.6.2).
    var isTokenCharacter: Bool { Byte.isToken(self) }
}

extension String {
    /// Whether the text has ASCII letters, digits and these characters only.
    func consists(ofLettersDigitsOr others: String) -> Bool {
        utf8.allSatisfy { $0.isLetterOrDigit || others.utf8.contains($0) }
    }
}

extension ValueFormat where Value == String {
    /// An origin in the serialization of browsers (RFC 6454 §6.2): lower-case scheme, host and a port other than the
    /// default port.
    static let origin = ValueFormat("origin such as `https://app.example.com`") { text throws(ConfigValueError) in
        let lower = text.lowercased()
        try require(
            lower != "*", "* is not supported: every site could act as the signed-in user",
            "write the origins, one by one")
        // Text that may contain a password, and any query, is not printed.
        try require(!text.contains("@"), "must be an origin without user and password", originExample)
        let shown = (text.prefix { !"?#".contains($0) }).quoted
        try require(
            !text.contains("*"), "\(shown) contains a wildcard, which would trust every subdomain",
            "write the origins, one by one")
        try require(lower != "null", "null is not supported: any page can have this origin", "leave it out")
        for (scheme, usualPort) in [("https", 443), ("http", 80)] where lower.hasPrefix("\(scheme)://") {
            return try origin(scheme, String(lower.dropFirst(scheme.count + 3)), usualPort: usualPort)
        }
        let isHost = HostAndPort(connecting: text, usualPort: 443) != nil
        throw ConfigValueError(
            "must be an origin, not \(shown)", isHost ? "write https://\(lower) or http://\(lower)" : originExample)
    }

    private static let originExample =
        "write one such as https://app.example.com, or with a port https://localhost:3000"

    private static func origin(
        _ scheme: String, _ authority: String, usualPort: Int
    ) throws(ConfigValueError) -> String {
        if let end = authority.firstIndex(where: { "/?#".contains($0) }) {
            throw ConfigValueError(
                "must be an origin without a path, not even a slash",
                "write \("\(scheme)://\(authority[..<end])".escaped)")
        }
        guard let address = HostAndPort(connecting: authority, usualPort: usualPort) else {
            throw ConfigValueError(
                "\("\(scheme)://\(authority)".quoted) must have a valid host and port", originExample)
        }
        guard address.port == usualPort else { return "\(scheme)://\(address)" }
        return "\(scheme)://" + (address.host.contains(":") ? "[\(address.host)]" : address.host)
    }
}
