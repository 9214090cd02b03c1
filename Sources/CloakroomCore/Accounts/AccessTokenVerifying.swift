package import CloakroomWire
import NIOCore

/// Verifies the access tokens of clients (RFC 9068), and names and passwords (RFC 7617). What is verified is a session
/// without a ticket: in no store, never refreshed, and ended with its token.
public protocol AccessTokenVerifying: Sendable {
    /// The result of an earlier verification. Never suspends; event loops may call it.
    /// - Parameters:
    ///   - field: The value of `Authorization`: `Bearer` or `Basic` in any case, one character, the token.
    ///   - site: The index in ``GatewayConfiguration/sites`` of the site whose identities are asked.
    func cached(_ field: Secret, site: Int, now: WallTime) -> RefreshOutcome?
    /// The same for the token of a session that an earlier call has returned, by the key of the session.
    func cached(_ key: SessionKey, now: WallTime) -> RefreshOutcome?
    /// The rejection of a token that is not known, if its client has sent too many that are not valid: a flood of them causes
    /// no work off the event loops. Never suspends; event loops may call it.
    /// - Parameters:
    ///   - field: As for ``verify(_:proof:site:from:)``, without those of `Basic`.
    ///   - peer: The address of the client.
    /// - Returns: `failed` with 429; `nil` if the token has to be verified.
    func limited(_ field: Secret, site: Int, from peer: String) -> RefreshOutcome?
    /// Verifies a token, or waits for its verification in progress.
    /// - Parameter proof: That of the scheme `DPoP`; `nil` for `Bearer`.
    /// - Returns: `failed` with 401 for a token or proof that is rejected, 429 for a client with too many of them, and 503
    ///   if they cannot be verified now.
    func verify(_ field: Secret, proof: TokenProof?, site: Int, from origin: AuditContext) async -> RefreshOutcome
    /// The upstream has rejected the token of a sign-in with a name and a password. Event loops may call it.
    /// - Returns: Whether verifying them again may help.
    func forget(_ field: Secret, _ session: Session, site: Int, now: WallTime) -> Bool
    /// The session of a token whose long-lived response has begun, as it may be used now. Event loops may call it.
    /// - Returns: `notCached` if its provider has to be asked again: call ``load(_:site:from:)``.
    func lookup(_ session: Session, now: WallTime) -> SessionLookup
    /// Asks the provider again about the token of a session, or waits for the question in progress.
    /// - Returns: `nil` if it does not respond.
    func load(_ session: Session, site: Int, from origin: AuditContext) async -> SessionLookup?
    /// A nonce for the next proof; `nil` if the site accepts no tokens that are bound to a key.
    func nonce(site: Int, now: WallTime) -> String?
}

/// What a client with a token that is bound to its key presents with each request (RFC 9449 §4.3). Nothing is verified.
public struct TokenProof: Sendable, Unprintable {
    /// The maximum length of a proof in bytes.
    package static let maxLength = 4_096

    /// `DPoP`; `nil` unless there is exactly one, of at most 4 KiB.
    public var text: [UInt8]?
    /// The method of the request.
    public var method: [UInt8]
    /// The path of the request in its normal form.
    public var path: [UInt8]
}

extension TokenProof {
    package init(_ head: borrowing RequestHead, path: [UInt8]) {
        let bytes = head.bytes.readableBytesUInt8Span
        var found = SingletonField.absent
        for field in head.fields where ASCII.equals(bytes, field.nameRange, "dpop") { found.add(field.valueRange) }
        self.init(text: nil, method: head.copy(of: head.method), path: path)
        if case .value(let range) = found, range.count <= Self.maxLength { text = head.copy(of: range) }
    }
}

/// What happened to an access token of a client: the label `outcome`.
public enum AccessTokenOutcome: String, Sendable, CaseIterable {
    /// It is valid, as was verified before or now.
    case cached, accepted
    /// It is not valid (401), or was issued to the gateway itself.
    case rejected
    case ownToken = "own_token"
    /// It is valid without the required scope (403), could not be verified (503), or was one of too many (429).
    case scope, unavailable, limited
}
