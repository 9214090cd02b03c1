/// Which certificate a client is shown, by the host that it names in its hello (SNI, RFC 6066 §3).
///
/// A certificate that is made out to the very name comes before one with a wildcard; among equals the first in the
/// configuration wins. A wildcard stands for one label (RFC 9525 §6.3).
struct CertificateSelector: Sendable {
    private var exact: [String: Int] = [:]
    /// By what follows the wildcard's label, the dot first.
    private var wildcards: [String: Int] = [:]

    /// - Parameter names: The DNS names of each certificate, in lower case.
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

    /// The index of the certificate for a host name in any case; `nil` if none is made out to it.
    func index(for serverName: String) -> Int? {
        let name = serverName.lowercased()
        if let index = exact[name] { return index }
        guard let dot = name.firstIndex(of: "."), dot != name.startIndex else { return nil }
        return wildcards[String(name[dot...])]
    }
}
