import CloakroomWire

/// The secrets that the gateway adds to a request. The response must not contain them.
public struct InjectedSecrets: Sendable {
    /// Nothing was injected.
    public static let none = InjectedSecrets(apiToken: nil, authorization: nil)

    /// The minimum length of a secret that is searched for: shorter ones could be part of any value.
    public static let shortestSought = 8
    /// The length of `Bearer` and a space.
    package static let schemeLength = 7

    private let apiToken: Secret?
    private let authorization: Secret?
    /// The minimum length of a value that can contain one of the secrets; `Int.max` if there is none to search for.
    let shortest: Int

    /// Creates the secrets of a request.
    /// - Parameters:
    ///   - apiToken: The upstream's API token.
    ///   - authorization: The value of `Authorization`: `Bearer`, a space, the access token.
    public init(apiToken: Secret?, authorization: Secret?) {
        self.apiToken = apiToken
        self.authorization = authorization
        var shortest = Int.max
        if let count = apiToken?.bytes.count, count >= Self.shortestSought { shortest = count }
        if let count = authorization?.bytes.count, count - Self.schemeLength >= Self.shortestSought {
            shortest = min(shortest, count - Self.schemeLength)
        }
        self.shortest = shortest
    }

    /// Whether a value contains one of the secrets. The cost is linear in the value's length: a value that is
    /// constructed to take longer counts as if it contained one.
    func areIn(_ bytes: Span<UInt8>, _ range: ByteRange) -> Bool {
        if let apiToken, contains(bytes, range, apiToken.bytes, from: 0) { return true }
        guard let authorization else { return false }
        return contains(bytes, range, authorization.bytes, from: Self.schemeLength)
    }

    private func contains(_ bytes: Span<UInt8>, _ range: ByteRange, _ secret: [UInt8], from start: Int) -> Bool {
        let count = secret.count - start
        guard count >= Self.shortestSought, count <= range.count else { return false }
        let first = secret[start]
        // The number of comparisons that partial matches may cost.
        var patience = 4 * range.count
        let last = range.end - count
        var next = range.start
        while true {
            let offset = FieldScan.first(first, in: bytes, from: next, to: last + 1)
            guard offset <= last else { return false }
            next = offset + 1
            var index = 1
            while index < count, bytes[offset + index] == secret[start + index] { index += 1 }
            if index == count { return true }
            patience -= index
            if patience < 0 { return true }
        }
    }
}

/// The number of response fields that were removed because they would have disclosed a secret or cleared the session
/// cookie.
public struct RemovedResponseFields: Sendable, Equatable {
    /// Fields with the name of a field that the gateway injects into requests.
    public var injectedNames = 0
    /// Values that contained an injected secret.
    public var injectedValues = 0
    /// `Clear-Site-Data` fields that would have cleared the session cookie.
    public var siteData = 0

    /// Nothing was removed.
    public init() {}

    /// Whether no field was removed.
    public var isEmpty: Bool { injectedNames | injectedValues | siteData == 0 }
}
