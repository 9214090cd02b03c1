import CloakroomCore
import CloakroomTelemetry

/// Who is on the other end of a client's connection; made once per connection.
struct Peer {
    /// The address without port, as it goes into logs.
    let address: String
    /// Whether it may tell who it forwards for.
    let isTrusted: Bool
    let scheme: URIScheme
    /// `nil` without TLS.
    let tlsVersion: ExchangeTLSVersion?
    /// `X-Client-Cert-Subject: …` with its line end; empty without a verified certificate.
    let certificateLine: [UInt8]
    /// `X-Forwarded-For: …` with its line end.
    let forwardedForLine: [UInt8]
    /// `X-Forwarded-Proto: …` with its line end.
    let forwardedProtoLine: [UInt8]
    /// All of these and `Via`, up to where the host comes in, for the usual request: HTTP/1.1, from no trusted peer.
    let commonFieldLines: [UInt8]
    /// `Forwarded: for=…;proto=…` without its line end (RFC 7239 §4).
    let forwardedPrefix: [UInt8]

    /// The field that names whom a client's certificate is for; a client's own copy never gets here.
    private static let certificateField = "X-Client-Cert-Subject"

    init(
        address: String, isTLS: Bool, trusted: [CIDRBlock], tlsVersion: ExchangeTLSVersion? = nil,
        certificateSubject: String? = nil
    ) {
        self.address = address
        self.tlsVersion = tlsVersion
        certificateLine = certificateSubject.map { Array("\(Self.certificateField): \($0)\r\n".utf8) } ?? []
        isTrusted = trusted.contains { $0.contains(address) }
        scheme = isTLS ? .https : .http
        let proto = isTLS ? "https" : "http"
        // An IPv6 address needs brackets and quotes in Forwarded (RFC 7239 §6).
        let node = address.contains(":") ? "\"[\(address)]\"" : address
        forwardedForLine = Array("X-Forwarded-For: \(address)\r\n".utf8)
        forwardedProtoLine = Array("X-Forwarded-Proto: \(proto)\r\n".utf8)
        forwardedPrefix = Array("Forwarded: for=\(node);proto=\(proto)".utf8)
        commonFieldLines =
            certificateLine + Array("Via: 1.1 cloakroom\r\n".utf8) + forwardedForLine + forwardedProtoLine
            + forwardedPrefix
    }
}
