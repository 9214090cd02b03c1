import CloakroomCore

extension ValueFormat where Value == String {
    /// A host that routes and listeners serve, folded: a name, an address, or `*.` and a name.
    static let host = ValueFormat("host, or `*.` and a host for one label") { text throws(ConfigValueError) in
        let shown = text.quoted
        try require(
            text.utf8.allSatisfy({ $0 < 0x80 }), "must be an A-label, not \(shown)",
            "write the host as browsers send it: xn--…")
        let name = text.hasPrefix("*.") ? String(text.dropFirst(2)) : text
        guard !name.contains("*") else {
            let rest = (name.split(separator: "*").last ?? "").drop { $0 == "." }
            throw ConfigValueError(
                "must begin with one *., not \(shown)",
                rest.isEmpty ? "leave hosts out to serve every host" : "write *.\(rest)")
        }
        guard let host = HostNames.folded(name), isHost(host, isAddressAllowed: name == text) else {
            let bare = text.split(separator: "://").last?.prefix { $0 != "/" } ?? ""
            let folded = HostNames.folded(String(bare)).flatMap { isHost($0, isAddressAllowed: true) ? $0 : nil }
            throw ConfigValueError("must be a host, not \(shown)", "write \(folded ?? "one such as app.example.com")")
        }
        try require(name.hasSuffix("]") || !name.contains(":"), "must be without a port, not \(shown)", "write \(host)")
        return name == text ? host : "*.\(host)"
    }

    private static func isHost(_ host: String, isAddressAllowed: Bool) -> Bool {
        if host.hasPrefix("[") {
            return isAddressAllowed && IPAddress.bytes(of: String(host.dropFirst().dropLast()))?.count == 16
        }
        let labels = host.split(separator: ".", omittingEmptySubsequences: false)
        // Browsers read a host whose last label is a number as an IPv4 address (the URL standard).
        if labels.last?.utf8.allSatisfy({ (0x30...0x39).contains($0) }) == true {
            return isAddressAllowed && IPAddress.bytes(of: host)?.count == 4
        }
        return HostAndPort.isHost(host) && labels.allSatisfy { (1...63).contains($0.utf8.count) }
    }
}
