import CloakroomCore
import CloakroomWire
import NIOCore

/// The client side of a connection; created once per connection. Immutable; a class, so that all streams of a connection
/// share it at one reference count.
final class Peer: Sendable {
    /// Address without port, as logged.
    let address: String
    /// Whether its forwarding fields are trusted.
    let isTrusted: Bool
    /// The kind of a proxy that only asks whether it may forward requests; `nil` for clients.
    let decidesFor: ForwardAuthConfiguration.Proxy?
    let scheme: URIScheme
    /// Whether clients use https: over TLS, or to a proxy in front that terminates it.
    let isSecure: Bool
    /// Index of the listener that accepted the connection.
    let listener: Int
    /// The requests in flight of its address; `nil` if they are not counted here, as for trusted proxies.
    let load: ClientLoad?
    /// Its address as what rate limits count by; `nil` if it was not needed when the connection began.
    let rateKey: RateKey?
    /// `nil` without TLS.
    let tlsVersion: TLSVersion?
    /// `X-Client-Cert-Subject: …` with its line end; empty without a verified certificate.
    let certificateLine: [UInt8]
    /// `X-Forwarded-For: …` with its line end.
    let forwardedForLine: [UInt8]
    /// `X-Forwarded-Proto: …` with its line end.
    let forwardedProtoLine: [UInt8]
    /// The certificate, `X-Forwarded-For`, `X-Forwarded-Proto`, `Via` and `Forwarded` lines up to the host, for the most
    /// common case: HTTP/1.1 from an untrusted peer.
    let commonFieldLines: [UInt8]
    /// The same for HTTP/2.
    let commonHTTP2FieldLines: [UInt8]
    /// `Forwarded: for=…;proto=…` without its line end (RFC 7239 §4).
    let forwardedPrefix: [UInt8]

    /// Address of the client of a request: resolved from the forwarding fields if the peer is trusted, else its own.
    func clientAddress(of head: borrowing RequestHead, trusted: [CIDRBlock]) -> String {
        isTrusted ? ClientAddress.resolve(head, peer: address, trusted: trusted) : address
    }

    /// Field with the subject of the client's certificate; a field of this name sent by a client is always stripped.
    private static let certificateField = "X-Client-Cert-Subject"

    init(
        address: String, isTLS: Bool, trusted: [CIDRBlock], tlsVersion: TLSVersion? = nil,
        certificateSubject: String? = nil, load: ClientLoad? = nil, listener: Int, rateHash: KeyedHash? = nil,
        isBehindTLSProxy: Bool = false, decidesFor: ForwardAuthConfiguration.Proxy? = nil
    ) {
        self.address = address
        self.listener = listener
        self.load = load
        if let rateHash { rateKey = RateKey(peer: address, hash: rateHash) } else { rateKey = nil }
        self.tlsVersion = tlsVersion
        certificateLine = certificateSubject.map { Array("\(Self.certificateField): \($0)\r\n".utf8) } ?? []
        self.decidesFor = decidesFor
        isTrusted = decidesFor != nil || trusted.contains { $0.contains(address) }
        scheme = isTLS ? .https : .http
        isSecure = isTLS || isBehindTLSProxy
        let proto = isTLS ? "https" : "http"
        // An IPv6 address needs brackets and quotes in Forwarded (RFC 7239 §6).
        let node = address.contains(":") ? "\"[\(address)]\"" : address
        forwardedForLine = Array("X-Forwarded-For: \(address)\r\n".utf8)
        forwardedProtoLine = Array("X-Forwarded-Proto: \(proto)\r\n".utf8)
        forwardedPrefix = Array("Forwarded: for=\(node);proto=\(proto)".utf8)
        let lines = forwardedForLine + forwardedProtoLine + forwardedPrefix
        commonFieldLines = certificateLine + Array("Via: 1.1 cloakroom\r\n".utf8) + lines
        commonHTTP2FieldLines = certificateLine + Array("Via: 2.0 cloakroom\r\n".utf8) + lines
    }
}

/// Properties of a client connection that are known before its first request.
struct DownstreamConnectionInfo {
    let channel: any Channel
    let context: LoopContext
    let isTLS: Bool
    /// Index of the listener that accepted it.
    let listener: Int
    /// The client's address from a PROXY header; `nil` to use the connection's remote address.
    var sourceAddress: String?
    /// The requests in flight of the client's address; `nil` if they are not counted.
    var load: ClientLoad?
    /// `nil` without TLS.
    var output: TLSOutput?
    /// `nil` without TLS.
    var tlsVersion: TLSVersion?
    /// Subject of the client's certificate, if one was requested and verified.
    var certificateSubject: String?

    /// Creates the peer for the connection's requests. The connection must be established.
    func makePeer() -> Peer {
        let listeners = context.snapshot.config.configuration.listeners
        let configuration = listeners.indices.contains(listener) ? listeners[listener] : nil
        return Peer(
            address: sourceAddress ?? channel.remoteAddress?.ipAddress ?? "unknown", isTLS: isTLS,
            trusted: context.snapshot.config.configuration.trustedProxies, tlsVersion: tlsVersion,
            certificateSubject: certificateSubject, load: load, listener: listener,
            rateHash: context.snapshot.config.rates?.hash,
            isBehindTLSProxy: configuration?.isBehindTLSProxy == true, decidesFor: configuration?.forwardAuth?.proxy)
    }
}
