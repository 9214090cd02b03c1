import Testing

@testable import CloakroomCore
@testable import CloakroomIdentity

/// A client with a key of its device, as a browser with Device Bound Session Credentials: it keeps its cookies, the last
/// challenge, and its key.
struct DeviceClient {
    let key: ScriptedKey
    var ticket: SessionTicket?
    /// The value of the bound cookie, and when the client deletes it.
    var proof: (value: String, end: WallTime)?
    var challenge: String?
    var sessionID: String?
    var peer = "192.0.2.1"

    init() throws { key = try ScriptedKey(.es256, id: nil) }

    /// A signed challenge.
    /// - Parameter header: The header; `nil` for that of a registration, or of a refresh once there is a session.
    func signed(_ challenge: String, header: String? = nil, by other: ScriptedKey? = nil) throws -> [UInt8] {
        let jwk = sessionID == nil ? #","jwk":\#(try key.jwk(more: "", hasAlgorithm: false))"# : ""
        let header = header ?? #"{"typ":"dbsc+jwt","alg":"ES256"\#(jwk)}"#
        let payload = #"{"jti":"\#(challenge)","aud":"https://other.example","iat":1}"#
        return try (other ?? key).token(payload, header: header)
    }

    /// A request with the cookies of the client.
    func request(_ endpoint: AccountEndpoint, at now: WallTime) -> AccountRequest {
        var request = AccountRequest(
            endpoint: endpoint, ticket: ticket, now: now.sessionTime, origin: AuditContext(peer: peer))
        if let proof, now < proof.end { request.device.cookie = Array(proof.value.utf8) }
        return request
    }

    /// A request for the device endpoint.
    func refresh(_ token: [UInt8]?, at now: WallTime) -> AccountRequest {
        var request = request(.device, at: now)
        request.device.proof = token
        request.device.sessionID = sessionID.map { Array($0.utf8) }
        return request
    }

    /// Takes what a response contains for the client.
    mutating func take(_ response: AccountResponse, at now: WallTime) {
        if let ticket = response.ticket, response.status == 200, sessionID == nil, self.ticket == nil {
            self.ticket = ticket
        }
        if let offer = response.values(of: "Secure-Session-Registration").first {
            challenge = offer.split(separator: "challenge=\"").last.map { String($0.dropLast()) }
        }
        if let field = response.values(of: "Secure-Session-Challenge").first {
            let parts = field.split(separator: "\"")
            challenge = String(parts[0])
            if response.status == 200 { sessionID = String(parts[2]) }
        }
        for cookie in response.values(of: "Set-Cookie") where cookie.hasPrefix("__Host-cloakroom-bound=") {
            let value = cookie.dropFirst("__Host-cloakroom-bound=".count).prefix { $0 != ";" }
            let seconds = cookie.split(separator: "Max-Age=").last.flatMap { Int64($0) } ?? 0
            proof = (String(value), now + .seconds(seconds))
        }
    }
}
