/// Selects the server certificate by the host name in the ClientHello (SNI, RFC 6066 §3).
///
/// A certificate issued for the exact name takes precedence over one with a wildcard; among equals the first in the
/// configuration is used. A wildcard matches one label (RFC 9525 §6.3).
struct CertificateSelector: Sendable {
    private var exact: [String: Int] = [:]
    /// Index by the part after the wildcard label, starting with the dot.
    private var wildcards: [String: Int] = [:]

    /// - Parameter names: DNS names of each certificate, in lower case.
    init(_ names: [[String]]) {
        for (index, names) in names.enumerated() {
            for name in names {
                if name.hasPrefix("*.") {
                    let suffix = String(name.dropFirst())
                    wildcards[suffix] = wildcards[suffix] ?? index
                } else {
                    exact[name] = exact[name] ?? index
                }
            }
        }
    }

    /// Index of the certificate for a host name in any case; `nil` if none is issued for it.
    func index(for serverName: String) -> Int? {
        let name = serverName.lowercased()
        if let index = exact[name] { return index }
        guard let dot = name.firstIndex(of: "."), dot != name.startIndex else { return nil }
        return wildcards[String(name[dot...])]
    }
}
