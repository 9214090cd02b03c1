import CloakroomWire

/// What the gateway puts into a request, and what its response must not carry back to the client.
public struct InjectedSecrets: Sendable {
    /// Nothing was injected.
    public static let none = InjectedSecrets(apiToken: nil, authorization: nil)

    /// Shorter ones are not looked for in values: they could be part of anything.
    public static let shortestSought = 8
    /// `Bearer` and a space.
    private static let schemeLength = 7

    private let apiToken: Secret?
    private let authorization: Secret?
    /// The least bytes of a value that can hold one of them; `Int.max` if there is none to look for.
    let shortest: Int

    /// Makes it.
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

    /// Whether one of them is in a value. The cost is linear in the value's length: one that is made so that it takes longer
    /// to search counts as if it held one.
    func areIn(_ bytes: Span<UInt8>, _ range: ByteRange) -> Bool {
        if let apiToken, contains(bytes, range, apiToken.bytes, from: 0) { return true }
        guard let authorization else { return false }
        return contains(bytes, range, authorization.bytes, from: Self.schemeLength)
    }

    private func contains(_ bytes: Span<UInt8>, _ range: ByteRange, _ secret: [UInt8], from start: Int) -> Bool {
        let count = secret.count - start
        guard count >= Self.shortestSought, count <= range.count else { return false }
        let first = secret[start]
        // What beginnings that lead nowhere may cost.
        var patience = 4 * range.count
        for offset in range.start...(range.end - count) where bytes[offset] == first {
            var index = 1
            while index < count, bytes[offset + index] == secret[start + index] { index += 1 }
            if index == count { return true }
            patience -= index
            if patience < 0 { return true }
        }
        return false
    }
}

/// How many fields of a response were removed for what they would have told the client, or done to it.
public struct RemovedResponseFields: Sendable, Equatable {
    /// Fields with the name of one that the gateway injects into requests.
    public var injectedNames = 0
    /// Values that held a secret that the gateway injected.
    public var injectedValues = 0
    /// `Clear-Site-Data` that would have taken the session's cookie away.
    public var siteData = 0

    /// Nothing was removed.
    public init() {}

    /// Whether there is anything to count.
    public var isEmpty: Bool { injectedNames | injectedValues | siteData == 0 }
}
