import NIOCore

/// In which order the addresses of one host name are tried (RFC 8305 §4).
enum HappyEyeballsOrder {
    /// Begins with the address whose turn it is; from there on the families alternate for as long as there are both.
    /// - Parameter turn: Counts connections, so that they go round all addresses.
    static func make<Address>(
        _ addresses: [Address], turn: Int, isVersion6: (Address) -> Bool
    ) -> [Address] {
        guard addresses.count > 1 else { return addresses }
        let start = turn % addresses.count
        let rotated = addresses[start...] + addresses[..<start]
        var families = [rotated.filter(isVersion6), rotated.filter { !isVersion6($0) }]
        // The family of the first goes first.
        if let first = rotated.first, !isVersion6(first) { families.swapAt(0, 1) }
        var order: [Address] = []
        order.reserveCapacity(addresses.count)
        for index in 0..<max(families[0].count, families[1].count) {
            for family in families where index < family.count { order.append(family[index]) }
        }
        return order
    }
}
