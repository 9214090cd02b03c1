/// A host name in a certificate: a `dNSName` of its subject alternative names (RFC 9525 §6.3).
public enum CertificateName {
    /// Whether a name in a certificate matches a host.
    ///
    /// An asterisk matches exactly the leftmost label.
    /// - Parameters:
    ///   - presented: The name in the certificate; ASCII, in any case.
    ///   - host: The requested host.
    public static func matches(_ presented: [UInt8], host: String) -> Bool {
        let presented = normal(presented)
        let host = normal(Array(host.utf8))
        guard !presented.isEmpty, !host.isEmpty else { return false }
        guard presented.starts(with: [UInt8(ascii: "*"), dot]) else {
            return presented.elementsEqual(host)
        }
        guard let end = host.firstIndex(of: dot), end > host.startIndex else { return false }
        return presented.dropFirst().elementsEqual(host[end...])
    }

    private static let dot = UInt8(ascii: ".")

    /// Returns the name in lower case, without a trailing dot.
    private static func normal(_ name: [UInt8]) -> ArraySlice<UInt8> {
        let lower = name.map { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) ? $0 | 0x20 : $0 }
        return lower.last == dot ? lower.dropLast() : lower[...]
    }
}
