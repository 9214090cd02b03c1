/// The methods of a route table, each with a small number.
struct MethodTable: Sendable {
    private static let standard = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"]
    private let names: [[UInt8]]

    /// Creates a table of the standard methods and the given ones.
    init(_ given: [String]) {
        var all = Self.standard
        for name in given where !all.contains(name) { all.append(name) }
        names = all.map { Array($0.utf8) }
    }

    var count: Int { names.count }

    /// Returns the number of a method; methods are case-sensitive (RFC 9110 §9.1). `nil` if no route uses it.
    @inline(__always)
    func index(of method: Span<UInt8>) -> Int? {
        for candidate in names.indices {
            let name = names[candidate]
            guard name.count == method.count else { continue }
            var index = 0
            while index < name.count, name[index] == method[index] { index += 1 }
            if index == name.count { return candidate }
        }
        return nil
    }

    /// Returns the methods whose bits are set, as a list for `Allow`.
    func list(_ bits: UInt64) -> String {
        names.indices.filter { $0 < 64 && bits & (1 << UInt64($0)) != 0 }
            .map { String(decoding: names[$0], as: UTF8.self) }.joined(separator: ", ")
    }
}
