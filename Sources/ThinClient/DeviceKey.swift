public import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// A key that never leaves its device, such as one of the Secure Enclave, to which sessions are bound. The cookie of a
/// bound session is worthless without it after some minutes. The app keeps the key for as long as the session.
public protocol DeviceKey: Sendable {
    /// The public key on P-256 in ANSI X9.63: the byte 4 and both coordinates, 65 bytes.
    var publicKey: Data { get }
    /// Signs a message with ES256 (RFC 7518 §3.4), without the user: the result is two numbers of 32 bytes each.
    func sign(_ message: Data) async throws -> Data
}

/// Binds the session of a client to its key, and proves again and again that the client has it: the requests of a browser
/// with device-bound sessions. Each of them is made by one task for all requests that wait for it.
actor DeviceProver {
    /// How long before the end of a proof the next one is requested, in seconds.
    private static let margin = 60.0

    private let key: any DeviceKey
    private let request: URLRequest
    private let transport: any Transport
    /// The challenge of a sign-in whose session is not bound yet.
    private var offer: String?
    /// The session, and the challenge for its next proof.
    private var session: (id: String, challenge: String)?
    private var end = Date.distantPast
    private var count = 0
    private var flight: Task<Void, Never>?

    /// - Parameter request: One to the endpoint for proofs.
    init(_ key: any DeviceKey, _ request: URLRequest, _ transport: any Transport) {
        (self.key, self.request, self.transport) = (key, request, transport)
    }

    /// Before a request: requests a proof, if the last one ends soon. After its end, a response has a new challenge.
    /// - Returns: The number of proofs so far.
    func prepare() async -> Int {
        if offer != nil || (0..<Self.margin).contains(end.timeIntervalSinceNow) { await prove() }
        return count
    }

    /// After a response: binds a new session, or requests a proof if the request lacked one.
    /// - Parameter proofs: The number of proofs when the request was sent.
    /// - Returns: Whether there is a new proof, so that the request can be sent again.
    func received(_ response: HTTPURLResponse, lacksProof: Bool, after proofs: Int) async -> Bool {
        note(response)
        if let challenge = Self.quoted("Secure-Session-Registration", response).last {
            (offer, session) = (challenge, nil)
            await prove()
        }
        if lacksProof, count == proofs { await prove() }
        return lacksProof && count > proofs
    }

    private func prove() async {
        let task = flight ?? Task { await self.requestProof() }
        flight = task
        await task.value
    }

    private func requestProof() async {
        defer { flight = nil }
        let offered = offer
        guard let challenge = offered ?? session?.challenge,
            let proof = try? await signed(challenge, isRegistration: offered != nil)
        else { return }
        var request = request
        request.setValue(proof, forHTTPHeaderField: "Secure-Session-Response")
        if offered == nil, let id = session?.id {
            request.setValue("\"\(id)\"", forHTTPHeaderField: "Sec-Secure-Session-Id")
        }
        guard let (_, response) = try? await transport.send(request) else { return }
        note(response)
        // After a failure that passes, the next request tries again.
        if offer == offered, response.statusCode < 500 { offer = nil }
        guard 200..<300 ~= response.statusCode else { return }
        let cookie = response.value(forHTTPHeaderField: "Set-Cookie") ?? ""
        let lifetime = cookie.firstMatch(of: /Max-Age=(\d+)/).flatMap { Double($0.1) } ?? 0
        end = Date(timeIntervalSinceNow: lifetime)
        count += 1
    }

    private func note(_ response: HTTPURLResponse) {
        let texts = Self.quoted("Secure-Session-Challenge", response)
        if texts.count == 2 { session = (texts[1], texts[0]) }
    }

    /// A signed challenge; to register, with the public key.
    private func signed(_ challenge: String, isRegistration: Bool) async throws -> String {
        let (x, y) = (Self.encoded(key.publicKey.dropFirst().prefix(32)), Self.encoded(key.publicKey.suffix(32)))
        let jwk = isRegistration ? #","jwk":{"kty":"EC","crv":"P-256","x":"\#(x)","y":"\#(y)"}"# : ""
        let header = Self.encoded(Data(#"{"typ":"dbsc+jwt","alg":"ES256"\#(jwk)}"#.utf8))
        let text = header + "." + Self.encoded(Data(#"{"jti":"\#(challenge)"}"#.utf8))
        return text + "." + Self.encoded(try await key.sign(Data(text.utf8)))
    }

    /// Base64url without padding (RFC 4648 §5).
    private static func encoded(_ bytes: Data) -> String {
        let text = bytes.base64EncodedString().replacing("+", with: "-").replacing("/", with: "_")
        return String(text.prefix { $0 != "=" })
    }

    /// The texts in quotation marks of a field.
    private static func quoted(_ field: String, _ response: HTTPURLResponse) -> [String] {
        (response.value(forHTTPHeaderField: field) ?? "").matches(of: /"([^"]*)"/).map { String($0.1) }
    }
}
