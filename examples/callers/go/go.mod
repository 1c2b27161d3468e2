module example.org/apportion-caller

go 1.18
