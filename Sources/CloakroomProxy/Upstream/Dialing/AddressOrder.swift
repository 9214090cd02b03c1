import NIOCore

/// Order in which the addresses of one host name are tried (RFC 8305 §4).
enum HappyEyeballsOrder {
    /// Starts with the address selected by round robin; from there the address families alternate while both remain.
    /// - Parameter turn: Connection counter; advances the round robin over all addresses.
    static func make<Address>(
        _ addresses: [Address], turn: Int, isVersion6: (Address) -> Bool
    ) -> [Address] {
        guard addresses.count > 1 else { return addresses }
        let start = turn % addresses.count
        let rotated = addresses[start...] + addresses[..<start]
        var families = [rotated.filter(isVersion6), rotated.filter { !isVersion6($0) }]
        // The family of the first address comes first.
        if let first = rotated.first, !isVersion6(first) { families.swapAt(0, 1) }
        var order: [Address] = []
        order.reserveCapacity(addresses.count)
        for index in 0..<max(families[0].count, families[1].count) {
            for family in families where index < family.count { order.append(family[index]) }
        }
        return order
    }
}
