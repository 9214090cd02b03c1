package import CloakroomCore

/// A key set of an OpenID Provider (RFC 7517 §5), reduced to the keys that the gateway can use.
///
/// An unusable key is skipped, and does not affect the others: providers list keys for encryption, with new curves
/// or with parameters of their own (RFC 7517 §5, last paragraph).
package struct JSONWebKeySet: Sendable {
    /// The maximum length of a document in bytes.
    package static let maxLength = 65_536
    /// The maximum number of keys in a document, including unusable ones.
    package static let maxKeys = 64

    /// The usable keys in their order.
    package let keys: [JSONWebKey]
    /// Why the others were skipped, by their position in the document.
    package let skipped: [(position: Int, reason: JSONWebKey.Unusable)]

    /// Why a document is rejected as a whole. The current keys then remain in use.
    package enum Invalid: String, Error, Sendable, Hashable {
        case tooLong = "too_long"
        case notJSON = "not_json"
        case noKeys = "no_keys"
        case tooManyKeys = "too_many_keys"
    }

    /// Parses a document in time linear in its length.
    /// - Throws: ``Invalid``. A document with duplicate member names is not JSON here (RFC 7517 §4).
    package init(document: [UInt8]) throws(Invalid) {
        guard document.count <= Self.maxLength else { throw .tooLong }
        guard let value = JSONValue(document: document) else { throw .notJSON }
        guard case .object(let members) = value, case .array(let items)? = members["keys"] else { throw .noKeys }
        guard items.count <= Self.maxKeys else { throw .tooManyKeys }
        var keys: [JSONWebKey] = []
        var skipped: [(position: Int, reason: JSONWebKey.Unusable)] = []
        for (position, item) in items.enumerated() {
            do throws(JSONWebKey.Unusable) {
                keys.append(try JSONWebKey(item))
            } catch {
                skipped.append((position, error))
            }
        }
        self.keys = keys
        self.skipped = skipped
    }
}

/// A public key for signatures (RFC 7517 §4, RFC 7518 §6, RFC 8037 §2).
package struct JSONWebKey: Sendable, Equatable {
    /// The limits of an RSA modulus in bits. Longer keys would make the verification of a token too slow.
    package static let modulusBits = 2_048...8_192
    /// The maximum length of an RSA exponent in bytes; all in use have at most 3.
    package static let maxExponentLength = 4
    /// The maximum length of `kid` in bytes.
    package static let maxIDLength = UnverifiedToken.maxNameLength

    /// The numbers of a key, of fixed lengths where the type has one.
    package enum Material: Sendable, Equatable {
        /// Modulus and exponent without leading zeros.
        case rsa(modulus: [UInt8], exponent: [UInt8])
        /// Both coordinates, padded to ``SignatureAlgorithm/Curve/coordinateLength``.
        case curve(SignatureAlgorithm.Curve, x: [UInt8], y: [UInt8])
        /// 32 bytes.
        case ed25519([UInt8])

        package var type: SignatureAlgorithm.KeyType {
            switch self {
            case .rsa: .rsa
            case .curve(let curve, _, _): .curve(curve)
            case .ed25519: .ed25519
            }
        }
    }

    /// `kid`; `nil` for none.
    package let id: String?
    /// `alg`, the only algorithm that the key may be used with; `nil` for all algorithms of its type.
    package let algorithm: SignatureAlgorithm?
    /// The numbers.
    package let material: Material

    /// Why a key is not used.
    package enum Unusable: String, Error, Sendable, Hashable, CaseIterable {
        case notAnObject = "not_an_object"
        case otherType = "other_type"
        case otherCurve = "other_curve"
        case otherUse = "other_use"
        case otherAlgorithm = "other_algorithm"
        case sharedKey = "shared_key"
        case privateKey = "private_key"
        case weakKey = "weak_key"
        case invalidNumbers = "invalid_numbers"
        case invalidName = "invalid_name"
    }

    /// Whether the key may verify a token: its type fits the algorithm, and its `alg` is absent or the same.
    package func fits(_ algorithm: SignatureAlgorithm) -> Bool {
        algorithm.keyType == material.type && (self.algorithm.map { $0 == algorithm } ?? true)
    }

    init(_ value: JSONValue) throws(Unusable) {
        guard case .object(let members) = value else { throw .notAnObject }
        guard let type = Self.text(members["kty"]) else { throw .otherType }
        guard !TokenClaims.isSame(type, "oct"), members["k"] == nil else { throw .sharedKey }
        // A provider that publishes a private key has none: all can sign with it (RFC 7518 §6.2.2, §6.3.2).
        guard members["d"] == nil, members["p"] == nil, members["q"] == nil else { throw .privateKey }
        try Self.checkUse(members)
        self.id = try Self.keyID(members["kid"])
        switch JSONMemberName(type) {
        case "RSA": self.material = try Self.rsa(members)
        case "EC": self.material = try Self.curve(members)
        case "OKP": self.material = try Self.ed25519(members)
        default: throw .otherType
        }
        switch members["alg"] {
        case nil, .null?: self.algorithm = nil
        case .string(let name)?:
            let algorithm = SignatureAlgorithm.allCases.first { TokenClaims.isSame($0.rawValue, name) }
            guard algorithm?.keyType == material.type else { throw .otherAlgorithm }
            self.algorithm = algorithm
        default: throw .otherAlgorithm
        }
    }

    // MARK: - Members

    /// `use` is absent or `sig`, and `key_ops` is absent or contains `verify` (RFC 7517 §4.2, §4.3).
    private static func checkUse(_ members: [JSONMemberName: JSONValue]) throws(Unusable) {
        switch members["use"] {
        case nil, .null?: break
        case .string(let use)? where TokenClaims.isSame(use, "sig"): break
        default: throw .otherUse
        }
        switch members["key_ops"] {
        case nil, .null?: break
        case .array(let operations)? where operations.contains(where: Self.isVerification): break
        default: throw .otherUse
        }
    }

    private static func isVerification(_ operation: JSONValue) -> Bool {
        operation.string.map { TokenClaims.isSame($0, "verify") } ?? false
    }

    private static func keyID(_ value: JSONValue?) throws(Unusable) -> String? {
        switch value {
        case nil, .null?: return nil
        case .string(let text)? where text.utf8.count <= maxIDLength: return text
        default: throw .invalidName
        }
    }

    private static func rsa(_ members: [JSONMemberName: JSONValue]) throws(Unusable) -> Material {
        guard let modulus = number(members["n"]), let exponent = number(members["e"]), let first = modulus.first,
            let last = modulus.last, let lastOfExponent = exponent.last
        else { throw .invalidNumbers }
        let bits = modulus.count * 8 - first.leadingZeroBitCount
        guard bits >= modulusBits.lowerBound else { throw .weakKey }
        // An even modulus or exponent, or an exponent of 1, belongs to no key.
        guard bits <= modulusBits.upperBound, exponent.count <= maxExponentLength, last & 1 == 1,
            lastOfExponent & 1 == 1, exponent != [1]
        else { throw .invalidNumbers }
        return .rsa(modulus: modulus, exponent: exponent)
    }

    /// Coordinates have a fixed length (RFC 7518 §6.2.1.2), but some providers omit leading zeros: one key in 128.
    private static func curve(_ members: [JSONMemberName: JSONValue]) throws(Unusable) -> Material {
        let name = text(members["crv"]) ?? ""
        guard let curve = SignatureAlgorithm.Curve.allCases.first(where: { TokenClaims.isSame($0.rawValue, name) })
        else {
            throw .otherCurve
        }
        guard let x = number(members["x"]), let y = number(members["y"]), x.count <= curve.coordinateLength,
            y.count <= curve.coordinateLength
        else { throw .invalidNumbers }
        func padded(_ number: [UInt8]) -> [UInt8] {
            Array(repeating: 0, count: curve.coordinateLength - number.count) + number
        }
        return .curve(curve, x: padded(x), y: padded(y))
    }

    private static func ed25519(_ members: [JSONMemberName: JSONValue]) throws(Unusable) -> Material {
        guard TokenClaims.isSame(text(members["crv"]) ?? "", "Ed25519") else { throw .otherCurve }
        // A byte string and not a number: zeros are part of it (RFC 8032 §5.1.2).
        guard let text = text(members["x"]), let key = Base64URL.decode(text.utf8), key.count == 32 else {
            throw .invalidNumbers
        }
        return .ed25519(key)
    }

    /// A number, without leading zeros and not 0.
    private static func number(_ value: JSONValue?) -> [UInt8]? {
        guard let text = text(value), let bytes = Base64URL.decode(text.utf8) else { return nil }
        let number = Array(bytes.drop { $0 == 0 })
        return number.isEmpty ? nil : number
    }

    private static func text(_ value: JSONValue?) -> String? {
        if case .string(let text)? = value { text } else { nil }
    }
}
